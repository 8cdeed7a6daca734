-- The payments whose reservations have ended by Redis's clock, and are not given back yet.
-- KEYS     held
local seconds, microseconds = unpack(redis.call('TIME'))
return redis.call('ZRANGE', KEYS[1], '-inf', seconds * 1000 + math.floor(microseconds / 1000), 'BYSCORE')
