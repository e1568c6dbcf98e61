-- Frees what an owner holds, and counts it out.
-- Input:  owner
-- Output: 1
for shard = 0, redis.call('HGET', at('meta'), 'shards') - 1 do
    local place = at('shard:' .. shard)
    if redis.call('HGET', place, 'owner') == ARGV[1] then
        redis.call('HDEL', place, 'owner', 'until')
    end
end
return redis.call('ZREM', at('nodes'), ARGV[1]) and 1
