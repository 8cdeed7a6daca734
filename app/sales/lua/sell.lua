-- A whole purchase in one script: Redis runs one script at a time, so there is nothing to lock.
-- KEYS     stock, lucky, orders, generation, answers
-- ARGV     idempotency key or '', ledger entry
-- Returns  {'closed'}             there is no sale
--          {'replay', answer}     the idempotency key has its answer already
--          {'sold_out', stock}    now also the answer to the idempotency key
--          {'sold', stock left}
local stock = tonumber(redis.call('GET', KEYS[1]))
if not stock or redis.call('EXISTS', KEYS[4]) == 0 then
  return {'closed'}
end
local keyed = ARGV[1] ~= ''
local answer = keyed and redis.call('HGET', KEYS[5], ARGV[1])
if answer then
  return {'replay', answer}
end
local outcome = 'sold_out'
if stock > 0 then
  outcome = 'sold'
  stock = redis.call('DECR', KEYS[1])
  redis.call('INCR', KEYS[2])
  redis.call('RPUSH', KEYS[3], ARGV[2])
end
if keyed then
  local entry = ',"stock":' .. stock .. ',"entry":' .. ARGV[2] .. '}'
  redis.call('HSET', KEYS[5], ARGV[1], '{"outcome":"' .. outcome .. '"' .. entry)
end
return {outcome, stock}
