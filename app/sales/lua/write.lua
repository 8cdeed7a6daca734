-- The write of a purchase: all of it lands, or nothing. It believes the stock that was read: that is the race.
-- KEYS     stock, lucky, orders, fence, generation, answers
-- ARGV     generation that was read, token or '', idempotency key or '', ledger entry, stock left
-- Returns  a refusal of `items_left`
--          {'replay', answer}     the idempotency key has got its answer since the read; nothing is changed
--          {'sold', stock left}
local _, refusal = items_left(KEYS[1], KEYS[5], ARGV[1], KEYS[4], ARGV[2])
if refusal then
  return refusal
end
local answer = first_answer(KEYS[6], ARGV[3])
if answer then
  return {'replay', answer}
end
redis.call('SET', KEYS[1], ARGV[5])
redis.call('INCR', KEYS[2])
redis.call('RPUSH', KEYS[3], ARGV[4])
keep_answer(KEYS[6], ARGV[3], 'sold', ARGV[5], ARGV[4])
return {'sold', ARGV[5]}
