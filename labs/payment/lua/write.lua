-- Takes the item that was read off the shelf, and writes its order into the ledger, once.
-- KEYS     items, fence, reservation, orders
-- ARGV     token, payment, item
-- Returns  {'fenced', token}   a higher one was here; nothing is written
--          {'written', item}
local fence = redis.call('GET', KEYS[2])
if fence and ARGV[1] < fence then
  return {'fenced', fence}
end
if redis.call('HSETNX', KEYS[3], 'state', 'ordered') == 1 then
  redis.call('HSET', KEYS[3], 'item', ARGV[3])
  redis.call('LREM', KEYS[1], 1, ARGV[3])
  redis.call('RPUSH', KEYS[4], cjson.encode({payment = ARGV[2], item = ARGV[3]}))
end
return {'written', ARGV[3]}
