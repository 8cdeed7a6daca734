-- Many purchases under one token, read and written in one step: all of them are decided, or none is.
-- KEYS     stock, lucky, orders, fence, generation, answers
-- ARGV     token (zero-padded), then for each purchase: idempotency key or '', ledger entry
-- Returns  {'fenced', fence}      a higher token was here; nothing is changed
--          {'closed'}             there is no sale
--          {'decided', ...}       and for each purchase two more, in the order given:
--            'replay', answer       the idempotency key has its answer already, perhaps from this very group
--            'sold', stock left
--            'sold_out', stock      the last two are now also the answer to the idempotency key
local fence = redis.call('GET', KEYS[4])
if fence and ARGV[1] < fence then
  return {'fenced', fence}
end
local before = tonumber(redis.call('GET', KEYS[1]))
if not before or redis.call('EXISTS', KEYS[5]) == 0 then
  return {'closed'}
end
redis.call('SET', KEYS[4], ARGV[1])
local decided, stock = {'decided'}, before
for place = 2, #ARGV, 2 do
  local key, entry = ARGV[place], ARGV[place + 1]
  local answer = key ~= '' and redis.call('HGET', KEYS[6], key)
  if answer then
    decided[place], decided[place + 1] = 'replay', answer
  else
    local outcome = 'sold_out'
    if stock > 0 then
      outcome, stock = 'sold', stock - 1
      redis.call('RPUSH', KEYS[3], entry)
    end
    decided[place], decided[place + 1] = outcome, stock
    if key ~= '' then
      redis.call('HSET', KEYS[6], key, '{"outcome":"' .. outcome .. '","stock":' .. stock .. ',"entry":' .. entry .. '}')
    end
  end
end
if stock < before then
  redis.call('SET', KEYS[1], stock)
  redis.call('INCRBY', KEYS[2], before - stock)
end
return decided
