-- Takes items out of a slot for shards, and notes them in the slot's journal in the same step; or only looks.
-- KEYS     stock, fence, generation, transfers, sent
-- ARGV     generation, token, divisor, then for each transfer: its id, the shard that it is for, and how many items are wanted
--          there. It takes one part in `divisor` of what is left, rounded up, until these are enough
-- Returns  a refusal of `enter`
--          {'debited', stock left, id, 'SHARD AMOUNT', ...}  with all that stands in the journal now
local stock, refusal = enter(KEYS[1], KEYS[3], ARGV[1], KEYS[2], ARGV[2])
if refusal then
  return refusal
end
for place = 4, #ARGV, 3 do
  local taken, wanted = 0, tonumber(ARGV[place + 2])
  while taken < wanted and stock > 0 do
    local part = math.ceil(stock / ARGV[3])
    taken, stock = taken + part, stock - part
  end
  if taken > 0 then
    redis.call('DECRBY', KEYS[1], taken)
    redis.call('INCRBY', KEYS[5], taken)
    redis.call('HSET', KEYS[4], ARGV[place], ARGV[place + 1] .. ' ' .. taken)
  end
end
return {'debited', stock, unpack(redis.call('HGETALL', KEYS[4]))}
