-- Closes the sale, which was just reset to no stock, until open.lua opens it. Its generation becomes the next one, which is closed from
-- its first moment on: a process that has seen a generation open need not look again.
-- KEYS     generation, answers, opening
-- ARGV     generation of the sale, items for sale at the opening, when that is (ms), or ''
-- Returns  {generation, now}      of the closed sale, and Redis's clock (us)
--          {'', now}              another reset was faster; nothing is changed
local seconds, microseconds = unpack(redis.call('TIME'))
local now = string.format('%.0f', seconds * 1000000 + microseconds)
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return {'', now}
end
local closed = string.format('%.0f', ARGV[1] + 1)
redis.call('SET', KEYS[1], closed)
redis.call('DEL', KEYS[2])
redis.call('HSET', KEYS[3], 'generation', closed, 'stock', ARGV[2], 'opens_at_ms', ARGV[3])
return {closed, now}
