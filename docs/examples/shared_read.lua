-- KEYS fence, mark, then values; ARGV token. Returns the values, or nil to a reader that a writer has overtaken.
if ARGV[1] < (redis.call('GET', KEYS[1]) or '') then return nil end
if ARGV[1] > (redis.call('GET', KEYS[2]) or '') then redis.call('SET', KEYS[2], ARGV[1]) end
return redis.call('MGET', unpack(KEYS, 3))
