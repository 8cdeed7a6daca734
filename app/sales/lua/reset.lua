-- Starts the sale of one item afresh. Its new generation keeps out a holder that read before; the fence begins at zero again, so that an etcd
-- that was wiped, and counts from one, can sell.
-- A sale has a stock and a generation. What a plain write leaves in a Redis that has just lost its data has no generation:
-- it is no sale, and is started afresh like one that never was.
-- What was sold before is kept once, as it stood at that moment: whoever watches may come too late to read it.
-- KEYS     initial, stock, lucky, orders, fence, generation, answers, previous, previous orders
-- ARGV     items for sale, 'always' or 'if closed'
-- Returns  1 if the sale was started, 0 if there was one already
if ARGV[2] == 'if closed' and redis.call('EXISTS', KEYS[2], KEYS[6]) == 2 then
  return 0
end
-- From the clock, not by counting: a Redis that lost its data must not come back to a generation that somebody has read.
local now = redis.call('TIME')
local generation = now[1] * 1000000 + now[2]
local before = tonumber(redis.call('GET', KEYS[6]) or 0)
if generation <= before then
  generation = before + 1
end
if redis.call('EXISTS', KEYS[4]) == 1 then
  local last = redis.call('MGET', KEYS[1], KEYS[2], KEYS[3], KEYS[6])
  for place, name in ipairs({'initial', 'stock', 'lucky', 'generation'}) do
    redis.call('HSET', KEYS[8], name, last[place] or 0)
  end
  redis.call('RENAME', KEYS[4], KEYS[9])
end
if ARGV[2] == 'always' then  -- an item that is new to a sale must not cost the others their answers
  redis.call('DEL', KEYS[7])
end
redis.call('MSET', KEYS[1], ARGV[1], KEYS[2], ARGV[1], KEYS[3], 0, KEYS[5], 0,
           KEYS[6], string.format('%.0f', generation))
return 1
