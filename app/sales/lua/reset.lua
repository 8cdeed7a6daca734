-- Opens the sale of all items anew, under a higher generation than any before: by it each process learns of the reset, and a holder
-- that read before is kept out. The fence begins at zero again, so that an etcd that was wiped, and counts from one, can sell.
-- What was sold before is kept once, as it stood at that moment: a viewer may come too late to read it.
-- KEYS     generation, answers, then for each item: initial, stock, lucky, orders, fence, previous, previous orders
-- ARGV     items for sale, the generation that the caller knows, or 0
-- Returns  the new generation: Redis's clock in microseconds, unless one from the future was there
local seconds, microseconds = unpack(redis.call('TIME'))
local before = redis.call('GET', KEYS[1]) or ''
local clock = seconds * 1000000 + microseconds
local generation = string.format('%.0f', math.max(clock, (tonumber(before) or 0) + 1, ARGV[2] + 1))
for first = 3, #KEYS, 7 do
  local initial, stock, lucky, orders, fence, previous, previous_orders = unpack(KEYS, first, first + 6)
  local last = redis.call('MGET', initial, stock, lucky)
  local has_orders = redis.call('EXISTS', orders) == 1
  if has_orders or last[2] ~= last[1] then
    redis.call('HSET', previous, 'initial', last[1] or 0, 'stock', last[2] or 0, 'lucky', last[3] or 0, 'generation', before)
    redis.call('DEL', previous_orders)
  end
  if has_orders then
    redis.call('RENAME', orders, previous_orders)
  end
  redis.call('MSET', initial, ARGV[1], stock, ARGV[1], lucky, 0, fence, 0)
end
redis.call('DEL', KEYS[2])
redis.call('SET', KEYS[1], generation)
return generation
