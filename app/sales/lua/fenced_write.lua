-- The write of a fenced purchase: all of it lands, or nothing.
-- KEYS     stock, lucky, orders, fence, generation, answers
-- ARGV     token (zero-padded), generation that was read, stock left, ledger entry, idempotency key or ''
-- Returns  {'fenced', fence}      a higher token was here since the read; nothing is changed
--          {'reset'}              the sale was reset since the read; nothing is changed
--          {'replay', answer}     the idempotency key was used for another item since the read; nothing is changed
--          {'sold'}
local fence = redis.call('GET', KEYS[4])
if redis.call('GET', KEYS[5]) ~= ARGV[2] then
  return {'reset'}
end
if fence and ARGV[1] < fence then
  return {'fenced', fence}
end
local answer = ARGV[5] ~= '' and redis.call('HGET', KEYS[6], ARGV[5])
if answer then
  return {'replay', answer}
end
redis.call('SET', KEYS[1], ARGV[3])
redis.call('INCR', KEYS[2])
redis.call('RPUSH', KEYS[3], ARGV[4])
if ARGV[5] ~= '' then
  redis.call('HSET', KEYS[6], ARGV[5], '{"outcome":"sold","stock":' .. ARGV[3] .. ',"entry":' .. ARGV[4] .. '}')
end
return {'sold'}
