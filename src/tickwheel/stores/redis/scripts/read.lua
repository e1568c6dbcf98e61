-- Reads the jobs of some keys.
-- Input:  keys, as a packed list
-- Output: frames of jobs, the clock in ms, the last generation given out
local keys = cmsgpack.unpack(ARGV[1])
return {frames_of(keys), whole(now_ms()), redis.call('GET', at('generation')) or '0'}
