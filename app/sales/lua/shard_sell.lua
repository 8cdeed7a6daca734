-- A purchase from one shard, in one step. Other slots may have items, so an empty shard is not sold out.
-- KEYS     stock, lucky, orders, generation, answers
-- ARGV     generation, idempotency key or '', ledger entry, 'last' if it is known that no item will come here any more, or ''
-- Returns  a refusal of `items_left`
--          {'replay', answer}     the idempotency key has its answer already
--          {'empty', 0}           nothing is changed
--          {'sold', stock left}
--          {'sold_out', 0}        the last two are now also the answer to the idempotency key
local stock, refusal = items_left(KEYS[1], KEYS[4], ARGV[1], '', '')
if refusal then
  return refusal
end
local answer = first_answer(KEYS[5], ARGV[2])
if answer then
  return {'replay', answer}
end
local outcome = stock > 0 and 'sold' or ARGV[4] == 'last' and 'sold_out' or 'empty'
if outcome == 'sold' then
  stock = redis.call('DECR', KEYS[1])
  redis.call('INCR', KEYS[2])
  redis.call('RPUSH', KEYS[3], ARGV[3])
end
if outcome ~= 'empty' then
  keep_answer(KEYS[5], ARGV[2], outcome, stock, ARGV[3])
end
return {outcome, stock}
