-- Takes an item off the shelf for a buyer, until the reservation's end by Redis's clock. A retry finds its reservation again.
-- KEYS     items, held, reservation
-- ARGV     payment, milliseconds
-- Returns  'held', or 'ordered' if it is confirmed already
--          'too_late'   it has ended
--          'reserved'   others hold the last items, and may give some back
--          'sold_out'
local state = redis.call('HGET', KEYS[3], 'state')
if state then
  return state == 'ended' and 'too_late' or state
end
local item = redis.call('LPOP', KEYS[1])
if not item then
  return redis.call('ZCARD', KEYS[2]) > 0 and 'reserved' or 'sold_out'
end
local seconds, microseconds = unpack(redis.call('TIME'))
redis.call('HSET', KEYS[3], 'state', 'held', 'item', item)
redis.call('ZADD', KEYS[2], seconds * 1000 + math.floor(microseconds / 1000) + ARGV[2], ARGV[1])
return 'held'
