-- TRANSITION shards: gives the slots of one place the generation of the sale, empty.
-- KEYS     for each item: initial, stock, lucky, orders, fence, previous, previous orders, transfers, credited; the last two are
--          generation and answers
-- ARGV     generation
local before = redis.call('GET', KEYS[#KEYS - 1]) or ''
if (tonumber(before) or 0) >= tonumber(ARGV[1]) then
  return
end
for place = 1, #KEYS - 2, 9 do
  local initial, stock, lucky, orders, fence, previous, previous_orders, transfers, credited = unpack(KEYS, place, place + 8)
  local last = redis.call('MGET', initial, stock, lucky)
  local has_orders = redis.call('EXISTS', orders) == 1
  if has_orders or last[2] ~= last[1] then
    redis.call('HSET', previous, 'initial', last[1] or 0, 'stock', last[2] or 0, 'lucky', last[3] or 0, 'generation', before)
    redis.call('DEL', previous_orders)
  end
  if has_orders then
    redis.call('RENAME', orders, previous_orders)
  end
  redis.call('DEL', transfers, credited)
  redis.call('MSET', initial, 0, stock, 0, lucky, 0, fence, 0)
end
redis.call('DEL', KEYS[#KEYS])
redis.call('SET', KEYS[#KEYS - 1], ARGV[1])
