-- Writes the order of a reservation into the ledger, once.
-- KEYS     held, orders, reservation
-- ARGV     payment, 'checked' if the reservation must still be held, else ''
-- Returns  1 if the buyer has the order, else 0
local state, item = unpack(redis.call('HMGET', KEYS[3], 'state', 'item'))
if state ~= 'ordered' then
  if ARGV[2] == 'checked' and state ~= 'held' then
    return 0
  end
  redis.call('HSET', KEYS[3], 'state', 'ordered')
  redis.call('ZREM', KEYS[1], ARGV[1])
  redis.call('RPUSH', KEYS[2], cjson.encode({payment = ARGV[1], item = item}))
end
return 1
