-- A generation for a sale that is about to be opened: Redis's clock in microseconds, or more if there was a higher one.
-- Redis refuses this where it would refuse the reset that follows, so a reset that must fail changes nothing in etcd.
-- KEYS     a key that does not exist, then generations that there may be
-- ARGV     the highest generation that etcd knows
redis.call('SET', KEYS[1], '', 'XX')
local now = redis.call('TIME')
local generation = math.max(now[1] * 1000000 + now[2], ARGV[1] + 1)
for place = 2, #KEYS do
  generation = math.max(generation, (tonumber(redis.call('GET', KEYS[place])) or 0) + 1)
end
return string.format('%.0f', generation)
