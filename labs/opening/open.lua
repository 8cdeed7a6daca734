-- Opens a closed sale in one step, under a new generation: a leader that comes late finds another one, and opens nothing twice.
-- KEYS     generation, answers, opening, opener, then for each item: initial, stock
-- ARGV     generation of the closed sale, token of the leader; '' is no token: it opens whatever it finds, as a leader would that
--          believes in its lease alone
-- Returns  {'fenced', token}      a leader with a higher token was here
--          {'over'}               it was opened before, scheduled again, reset or lost
--          {'early', ms}          so long until it opens, by Redis's clock
--          {'opened', generation}
local closed, token, last = ARGV[1], ARGV[2], redis.call('HMGET', KEYS[4], 'closed', 'token')
local generation = redis.call('GET', KEYS[1])
local plan = redis.call('HMGET', KEYS[3], 'generation', 'stock', 'opens_at_ms')
local seconds, microseconds = unpack(redis.call('TIME'))
local now = seconds * 1000000 + microseconds
if token ~= '' then
  if last[1] == closed and token < last[2] then
    return {'fenced', last[2]}
  end
  redis.call('HSET', KEYS[4], 'closed', closed, 'token', token)
  if generation ~= closed or plan[1] ~= closed or not tonumber(plan[3]) then
    return {'over'}
  elseif now < plan[3] * 1000 then
    return {'early', math.ceil(plan[3] - now / 1000)}
  end
end
if generation == closed then
  generation = string.format('%.0f', math.max(now, closed + 1))
end
for place = 5, #KEYS, 2 do
  redis.call('MSET', KEYS[place], plan[2], KEYS[place + 1], plan[2])
end
redis.call('DEL', KEYS[2])
redis.call('SET', KEYS[1], generation)
redis.call('HSET', KEYS[3], 'opened', generation)
redis.call('HSET', KEYS[4], 'generation', generation, 'at_ms', string.format('%.0f', math.floor(now / 1000)))
return {'opened', generation}
