-- Reads what others made pending, and forgets what was read before; for the shard's owner alone, or a former one would
-- take it away from its successor.
-- Input:  shard; owner; epoch; the generation up to which it was read before
-- Output: frames of jobs; the last generation given out
local shard, owner, epoch, since = unpack(ARGV)
local notes, place = at('note:' .. shard), at('shard:' .. shard)
local holder = redis.call('HMGET', place, 'owner', 'epoch')
if holder[1] ~= owner or holder[2] ~= epoch then
    return {'', since}
end
redis.call('ZREMRANGEBYSCORE', notes, '-inf', since)
return {frames_of(redis.call('ZRANGE', notes, '-inf', '+inf', 'BYSCORE')), redis.call('GET', at('generation')) or '0'}
