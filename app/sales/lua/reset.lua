-- Opens the sale of one item, or closes it until it is opened by open.lua. Its new generation keeps out a holder that read
-- before; the fence begins at zero again, so that an etcd that was wiped, and counts from one, can sell.
-- What was sold before is kept once, as it stood at that moment: a viewer may come too late to read it.
-- KEYS     initial, stock, lucky, orders, fence, generation, answers, previous, previous orders, transfers, credited
-- ARGV     items for sale, generation, 'always' or 'if none', stock: the items, or 'closed' if the sale is to open later. That is
--          not a number, so no script sells from it
-- Returns  {generation, initial, stock} of the sale that there is now: the one asked for, unless there was one already or, for
--          'always', a later reset was faster
local before = tonumber(redis.call('GET', KEYS[6])) or 0
local none = redis.call('EXISTS', KEYS[2], KEYS[6]) < 2  -- a stock without a generation is not a sale
if not none and (ARGV[3] == 'if none' or before >= tonumber(ARGV[2])) then
  return redis.call('MGET', KEYS[6], KEYS[1], KEYS[2])
end
local last = redis.call('MGET', KEYS[1], KEYS[2], KEYS[3], KEYS[6])
local has_orders = redis.call('EXISTS', KEYS[4]) == 1
if has_orders or tonumber(last[2]) and last[2] ~= last[1] then  -- or items have left for a shard, or come to one
  for place, name in ipairs({'initial', 'stock', 'lucky', 'generation'}) do
    redis.call('HSET', KEYS[8], name, last[place] or 0)
  end
  redis.call('DEL', KEYS[9])
  if has_orders then
    redis.call('RENAME', KEYS[4], KEYS[9])
  end
end
redis.call('DEL', KEYS[10], KEYS[11])
if ARGV[3] == 'always' then  -- an item that is new to a sale must not cost the others their answers
  redis.call('DEL', KEYS[7])
end
redis.call('MSET', KEYS[1], ARGV[1], KEYS[2], ARGV[4], KEYS[3], 0, KEYS[5], 0, KEYS[6], ARGV[2])
return {ARGV[2], ARGV[1], ARGV[4]}
