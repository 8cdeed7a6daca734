-- Purchases read and written in one step: Redis runs one script at a time, so there is nothing to lock. All are decided, or none.
-- KEYS     stock, lucky, orders, fence, generation, answers
-- ARGV     generation, token or ''; then for each purchase: idempotency key or '', ledger entry
-- Returns  a refusal of `enter`
--          {'decided', ...}       and for each purchase two more, in the order given:
--            'replay', answer       the idempotency key has its answer already, perhaps from this very group
--            'sold', stock left
--            'sold_out', stock      the last two are now also the answer to the idempotency key
local before, refusal = enter(KEYS[1], KEYS[5], ARGV[1], KEYS[4], ARGV[2])
if refusal then
  return refusal
end
local results, stock = {'decided'}, before
for place = 3, #ARGV, 2 do
  local key, entry = ARGV[place], ARGV[place + 1]
  local outcome, found = 'replay', first_answer(KEYS[6], key)
  if not found then
    outcome = stock > 0 and 'sold' or 'sold_out'
    if outcome == 'sold' then
      stock = stock - 1
      redis.call('RPUSH', KEYS[3], entry)
    end
    keep_answer(KEYS[6], key, outcome, stock, entry)
    found = stock
  end
  table.insert(results, outcome)
  table.insert(results, found)
end
if stock < before then
  redis.call('SET', KEYS[1], stock)
  redis.call('INCRBY', KEYS[2], before - stock)
end
return results
