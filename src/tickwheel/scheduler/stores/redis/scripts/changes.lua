-- Reads what others made pending, and forgets what was read before.
-- Input:  shard; the generation up to which it was read before
-- Output: frames of jobs; the last generation given out
local notes = at('note:' .. ARGV[1])
redis.call('ZREMRANGEBYSCORE', notes, '-inf', ARGV[2])
return {frames_of(redis.call('ZRANGE', notes, '-inf', '+inf', 'BYSCORE')), redis.call('GET', at('generation')) or '0'}
