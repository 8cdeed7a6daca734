-- Opens a shard in a generation, empty; if it is open in this one, or a later one, nothing is changed.
-- What was sold there before is kept once, as the reset of the sale does.
-- KEYS     generation, stock, lucky, orders, fence, answers, sent, arrived, transfers, credited, previous, previous orders
-- ARGV     generation
local before = redis.call('GET', KEYS[1])
if (tonumber(before) or 0) >= tonumber(ARGV[1]) then
  return {'opened'}
end
if before then
  local last = redis.call('MGET', KEYS[2], KEYS[7], KEYS[8], KEYS[3])
  local left = (tonumber(last[1]) or 0) + (tonumber(last[2]) or 0) - (tonumber(last[3]) or 0)
  redis.call('HSET', KEYS[11], 'generation', before, 'stock', left, 'lucky', last[4] or 0)
end
redis.call('DEL', KEYS[12])
if redis.call('EXISTS', KEYS[4]) == 1 then
  redis.call('RENAME', KEYS[4], KEYS[12])
end
redis.call('DEL', KEYS[6], KEYS[9], KEYS[10])
redis.call('MSET', KEYS[2], 0, KEYS[3], 0, KEYS[5], 0, KEYS[7], 0, KEYS[8], 0, KEYS[1], ARGV[1])
return {'opened'}
