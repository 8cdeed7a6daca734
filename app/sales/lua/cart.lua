-- A cart, bought all or nothing under one token for each of its items: everything is looked at before anything is written.
-- KEYS     answers, then for each item: stock, lucky, orders, fence, generation
-- ARGV     idempotency key or '', entry of the cart, then for each item: its name, token (zero-padded), ledger entry
-- Returns  {'fenced', place, fence}   a higher token was at the item in this place (from 1) before; nothing is changed
--          {'closed', place}          there is no sale of that item; nothing is changed
--          {'replay', answer}         the idempotency key has its answer already
--          {'sold_out', stocks}       what is left of each item, as a JSON object; now also the answer to the key
--          {'sold', stocks}           the same, after the purchase
local items = (#KEYS - 1) / 5
local stocks, enough = {}, true
for place = 1, items do
  local fence = redis.call('GET', KEYS[place * 5])
  if fence and ARGV[place * 3 + 1] < fence then
    return {'fenced', place, fence}
  end
  stocks[place] = tonumber(redis.call('GET', KEYS[place * 5 - 3]))
  if not stocks[place] or redis.call('EXISTS', KEYS[place * 5 + 1]) == 0 then
    return {'closed', place}
  end
  enough = enough and stocks[place] > 0
end
for place = 1, items do
  redis.call('SET', KEYS[place * 5], ARGV[place * 3 + 1])
end
local answer = ARGV[1] ~= '' and redis.call('HGET', KEYS[1], ARGV[1])
if answer then
  return {'replay', answer}
end
local left = {}
for place = 1, items do
  if enough then
    stocks[place] = redis.call('DECR', KEYS[place * 5 - 3])
    redis.call('INCR', KEYS[place * 5 - 2])
    redis.call('RPUSH', KEYS[place * 5 - 1], ARGV[place * 3 + 2])
  end
  left[place] = '"' .. ARGV[place * 3] .. '":' .. stocks[place]
end
local outcome, shown = enough and 'sold' or 'sold_out', '{' .. table.concat(left, ',') .. '}'
if ARGV[1] ~= '' then
  redis.call('HSET', KEYS[1], ARGV[1], '{"outcome":"' .. outcome .. '","stock":' .. shown .. ',"entry":' .. ARGV[2] .. '}')
end
return {outcome, shown}
