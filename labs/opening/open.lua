-- Opens the sale of one item that is closed: from its generation to the next one, so a repeated opening changes nothing.
-- KEYS     initial, stock, generation, opener
-- ARGV     generation of the closed sale, that of the opening, items for sale, when it opens (ms), token of the leader; '' is
--          no token: it opens whatever it finds, as a leader would that believes in its lease alone
-- Returns  {'fenced', token}      a leader with a higher token was here
--          {'open'}               this was done before
--          {'generation', found}  the sale was scheduled again, reset or lost
--          {'early', ms}          so long until it opens, by Redis's clock
--          {'opened'}             the only answer that comes with a change of the sale
local token, last = ARGV[5], redis.call('HMGET', KEYS[4], 'generation', 'token')
local seconds, microseconds = unpack(redis.call('TIME'))
local now = seconds * 1000 + math.floor(microseconds / 1000)
if token ~= '' then
  if last[1] == ARGV[2] and token < last[2] then
    return {'fenced', last[2]}
  end
  redis.call('HSET', KEYS[4], 'generation', ARGV[2], 'token', token)
  local found = redis.call('EXISTS', KEYS[2]) == 1 and redis.call('GET', KEYS[3]) or ''
  if found == ARGV[2] then
    return {'open'}
  elseif found ~= ARGV[1] then
    return {'generation', found}
  elseif now < tonumber(ARGV[4]) then
    return {'early', ARGV[4] - now}
  end
end
redis.call('HSET', KEYS[4], 'generation', ARGV[2], 'at_ms', now)
redis.call('MSET', KEYS[1], ARGV[3], KEYS[2], ARGV[3], KEYS[3], ARGV[2])
return {'opened'}
