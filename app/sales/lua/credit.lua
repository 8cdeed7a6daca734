-- Lets a transfer arrive in a shard, once: a repeated credit changes nothing.
-- KEYS     stock, fence, generation, credited
-- ARGV     generation, token, id of the transfer, amount
-- Returns  {'generation', found}  this is not the sale that is expected; nothing is changed
--          {'fenced', fence}      a higher token was here; nothing is changed
--          {'credited'}           by this step, or by one before
local _, other = items_left(KEYS[1], KEYS[3], ARGV[1])
local refusal = other or fenced(KEYS[2], ARGV[2])
if refusal then
  return refusal
end
redis.call('SET', KEYS[2], ARGV[2])
if redis.call('SADD', KEYS[4], ARGV[3]) == 1 then
  redis.call('INCRBY', KEYS[1], ARGV[4])
end
return {'credited'}
