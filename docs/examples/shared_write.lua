-- KEYS fence, mark, then names; ARGV token, then values. Writes all or nothing; 1, or 0 to a writer overtaken.
if ARGV[1] < (redis.call('GET', KEYS[1]) or '') or ARGV[1] < (redis.call('GET', KEYS[2]) or '') then return 0 end
redis.call('SET', KEYS[1], ARGV[1])
for place = 3, #KEYS do redis.call('SET', KEYS[place], ARGV[place - 1]) end
return 1
