-- Notes places in the sale, after they were opened: from then on, one without its generation has lost its data. The first note of a
-- generation begins the treasury's own journal anew.
-- KEYS     stock, fence, generation, places, then those of the journal: generation, sent, transfers, previous
-- ARGV     generation, token, then the prefixes of the places
-- Returns  a refusal of `enter`
--          {'noted'}
local _, refusal = enter(KEYS[1], KEYS[3], ARGV[1], KEYS[2], ARGV[2])
if refusal then
  return refusal
end
local before = redis.call('GET', KEYS[5])
if before ~= ARGV[1] then
  if before then
    redis.call('HSET', KEYS[8], 'generation', before, 'stock', redis.call('GET', KEYS[6]) or 0)
  end
  redis.call('DEL', KEYS[7])
  redis.call('MSET', KEYS[6], 0, KEYS[5], ARGV[1])
end
for place = 3, #ARGV do
  redis.call('HSET', KEYS[4], ARGV[place], ARGV[1])
end
return {'noted'}
