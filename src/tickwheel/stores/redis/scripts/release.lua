-- Frees the shards of an owner, and removes it from the live nodes.
-- Input:  owner
-- Output: 1
for _, shard in ipairs(all_shards()) do
    local place = at('shard:' .. shard)
    if redis.call('HGET', place, 'owner') == ARGV[1] then
        redis.call('HDEL', place, 'owner', 'until')
    end
end
redis.call('HDEL', at('reports'), ARGV[1])
return redis.call('ZREM', at('nodes'), ARGV[1]) and 1
