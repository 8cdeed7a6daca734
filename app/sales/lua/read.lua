-- The read of a purchase. With a token it shuts out every lower one: were only the write fenced, an old holder could still
-- commit between the new holder's read and its write, and the new holder would overwrite it.
-- KEYS     stock, lucky, orders, fence, generation, answers
-- ARGV     generation, token or '', idempotency key or '', ledger entry
-- Returns  a refusal of `enter`
--          {'replay', answer}     the idempotency key has its answer already
--          {'sold_out', stock}    now also the answer to the idempotency key
--          {'open', stock}
local stock, refusal = enter(KEYS[1], KEYS[5], ARGV[1], KEYS[4], ARGV[2])
if refusal then
  return refusal
end
local answer = first_answer(KEYS[6], ARGV[3])
if answer then
  return {'replay', answer}
end
if stock > 0 then
  return {'open', stock}
end
keep_answer(KEYS[6], ARGV[3], 'sold_out', stock, ARGV[4])
return {'sold_out', stock}
