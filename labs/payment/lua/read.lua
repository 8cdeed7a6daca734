-- The next item on the shelf, for the holder of a lock; from here on lower tokens are refused.
-- KEYS     items, fence, reservation
-- ARGV     token
-- Returns  {'fenced', token}   a higher one was here
--          {'read', item}      '' if nothing is left; a retry of a buyer finds its own item
local fence = redis.call('GET', KEYS[2])
if fence and ARGV[1] < fence then
  return {'fenced', fence}
end
redis.call('SET', KEYS[2], ARGV[1])
return {'read', redis.call('HGET', KEYS[3], 'item') or redis.call('LINDEX', KEYS[1], 0) or ''}
