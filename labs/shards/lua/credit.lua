-- Lets a transfer arrive in a shard, once: a repeated credit changes nothing.
-- KEYS     stock, fence, generation, credited, arrived
-- ARGV     generation, token, id of the transfer, amount
-- Returns  a refusal of `enter`
--          {'credited'}           by this step, or by one before
local _, refusal = enter(KEYS[1], KEYS[3], ARGV[1], KEYS[2], ARGV[2])
if refusal then
  return refusal
end
if redis.call('SADD', KEYS[4], ARGV[3]) == 1 then
  redis.call('INCRBY', KEYS[1], ARGV[4])
  redis.call('INCRBY', KEYS[5], ARGV[4])
end
return {'credited'}
