-- The read of a fenced purchase. It shuts out every lower token: were only the write fenced, an old holder could still commit
-- between the new holder's read and its write, and the new holder would overwrite it.
-- KEYS     stock, fence, generation, answers
-- ARGV     token (zero-padded, because Lua's numbers are exact only up to 2^53), idempotency key or '', ledger entry
-- Returns  {'fenced', fence}      a higher token was here; nothing is changed
--          {'closed'}             there is no sale
--          {'replay', answer}     the idempotency key has its answer already
--          {'sold_out', stock}    now also the answer to the idempotency key
--          {'open', stock, generation}
local fence = redis.call('GET', KEYS[2])
if fence and ARGV[1] < fence then
  return {'fenced', fence}
end
local stock, generation = tonumber(redis.call('GET', KEYS[1])), redis.call('GET', KEYS[3])
if not (stock and generation) then
  return {'closed'}
end
redis.call('SET', KEYS[2], ARGV[1])
local keyed = ARGV[2] ~= ''
local answer = keyed and redis.call('HGET', KEYS[4], ARGV[2])
if answer then
  return {'replay', answer}
end
if stock > 0 then
  return {'open', stock, generation}
end
if keyed then
  redis.call('HSET', KEYS[4], ARGV[2], '{"outcome":"sold_out","stock":' .. stock .. ',"entry":' .. ARGV[3] .. '}')
end
return {'sold_out', stock}
