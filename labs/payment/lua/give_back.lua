-- Ends a reservation that is still held, and puts its item back on the shelf; twice does no harm.
-- KEYS     items, held, unsettled, reservation
-- ARGV     payment
if redis.call('HGET', KEYS[4], 'state') == 'held' then
  redis.call('HSET', KEYS[4], 'state', 'ended')
  redis.call('ZREM', KEYS[2], ARGV[1])
  redis.call('RPUSH', KEYS[1], redis.call('HGET', KEYS[4], 'item'))
  redis.call('SADD', KEYS[3], ARGV[1])  -- its charge may still come
end
