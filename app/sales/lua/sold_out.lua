-- Whether there is nothing to buy, asked without a lock: one step of Redis sees stock and answers of the same moment, so what it
-- says is true whoever holds what. It never says that there is something.
-- KEYS     stock, generation, answers
-- ARGV     idempotency key or '', ledger entry
-- Returns  {'open'}               something is left, or there is no sale: buy under the lock
--          {'replay', answer}     the idempotency key has its answer already
--          {'sold_out', stock}    now also the answer to the idempotency key
local stock = tonumber(redis.call('GET', KEYS[1]))
if not stock or stock > 0 or redis.call('EXISTS', KEYS[2]) == 0 then
  return {'open'}
end
if ARGV[1] ~= '' then
  local answer = redis.call('HGET', KEYS[3], ARGV[1])
  if answer then
    return {'replay', answer}
  end
  redis.call('HSET', KEYS[3], ARGV[1], '{"outcome":"sold_out","stock":' .. stock .. ',"entry":' .. ARGV[2] .. '}')
end
return {'sold_out', stock}
