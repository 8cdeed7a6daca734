-- Claims an idempotency key in the treasury, where the other guards see it, for a purchase in a shard; and later replaces the claim
-- by the purchase's answer. A claim is an answer without an outcome: a purchase under way.
-- KEYS     stock, generation, answers
-- ARGV     generation, idempotency key, outcome or '' for a claim, stock left, ledger entry
-- Returns  a refusal of `items_left`
--          {'replay', answer}     the key has its answer already; for a claim this may be another claim
--          {'kept'}
local _, refusal = items_left(KEYS[1], KEYS[2], ARGV[1], '', '')
if refusal then
  return refusal
end
local answer = first_answer(KEYS[3], ARGV[2])
local is_claimed = answer and answer:find('{"entry":', 1, true) == 1
if answer and (ARGV[3] == '' or not is_claimed) then
  return {'replay', answer}
end
if ARGV[3] == '' then
  redis.call('HSET', KEYS[3], ARGV[2], '{"entry":' .. ARGV[5] .. '}')
else
  keep_answer(KEYS[3], ARGV[2], ARGV[3], ARGV[4], ARGV[5])
end
return {'kept'}
