-- Takes items out of a slot for a shard, and notes them in the slot's journal in the same step; or only looks.
-- KEYS     stock, fence, generation, transfers
-- ARGV     generation, token, then for a transfer: its id, the shard that it is for, and the divisor: one part of so many is
--          taken, rounded up
-- Returns  a refusal of `enter`
--          {'debited', taken, stock left, id, 'SHARD AMOUNT', ...}  with all that stood in the journal before
local stock, refusal = enter(KEYS[1], KEYS[3], ARGV[1], KEYS[2], ARGV[2])
if refusal then
  return refusal
end
local pending = redis.call('HGETALL', KEYS[4])
local taken = ARGV[3] and math.ceil(stock / ARGV[5]) or 0
if taken > 0 then
  stock = redis.call('DECRBY', KEYS[1], taken)
  redis.call('HSET', KEYS[4], ARGV[3], ARGV[4] .. ' ' .. taken)
end
return {'debited', taken, stock, unpack(pending)}
