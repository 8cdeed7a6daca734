-- The sale as it stands in the treasury: a shard does not learn of a reset, so each group of purchases asks here.
-- KEYS     stock, generation, and places if they are asked for
-- ARGV     generation
-- Returns  a refusal of `items_left`
--          {'current', prefix, generation, ...}  with the places that are noted, in this generation or before
local _, refusal = items_left(KEYS[1], KEYS[2], ARGV[1], '', '')
if refusal then
  return refusal
end
return {'current', unpack(KEYS[3] and redis.call('HGETALL', KEYS[3]) or {})}
