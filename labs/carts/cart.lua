-- A cart, bought all or nothing under one token for each of its items: everything is looked at before anything is written.
-- KEYS     answers, then for each item: stock, lucky, orders, fence, generation
-- ARGV     idempotency key or '', entry of the cart, then for each item: its name, generation, token, ledger entry
-- Returns  {'generation', found, place}  the item in this place (from 1) is not of the sale expected; nothing is changed
--          {'fenced', fence, place}      a higher token was at that item before; nothing is changed
--          {'replay', answer}            the idempotency key has its answer already
--          {'sold_out', stocks}          what is left of each item, as a JSON object; now also the answer to the key
--          {'sold', stocks}              the same, after the purchase
local items, stocks, enough = {}, {}, true
for place = 1, (#KEYS - 1) / 5 do
  local k, a = place * 5 - 4, place * 4 - 2
  local item = {stock = KEYS[k + 1], lucky = KEYS[k + 2], orders = KEYS[k + 3], fence = KEYS[k + 4],
                name = ARGV[a + 1], token = ARGV[a + 3], entry = ARGV[a + 4]}
  local stock, refusal = items_left(item.stock, KEYS[k + 5], ARGV[a + 2], item.fence, item.token)
  if refusal then
    return {refusal[1], refusal[2], place}
  end
  items[place], stocks[place], enough = item, stock, enough and stock > 0
end
for _, item in ipairs(items) do
  redis.call('SET', item.fence, item.token)
end
local answer = first_answer(KEYS[1], ARGV[1])
if answer then
  return {'replay', answer}
end
local left = {}
for place, item in ipairs(items) do
  if enough then
    stocks[place] = redis.call('DECR', item.stock)
    redis.call('INCR', item.lucky)
    redis.call('RPUSH', item.orders, item.entry)
  end
  left[place] = '"' .. item.name .. '":' .. stocks[place]
end
local outcome, shown = enough and 'sold' or 'sold_out', '{' .. table.concat(left, ',') .. '}'
keep_answer(KEYS[1], ARGV[1], outcome, shown, ARGV[2])
return {outcome, shown}
