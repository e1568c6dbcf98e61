-- Checks whether the server is still the same. Another server, or the same server after a restart, may have lost the
-- latest numbers given out. If it has changed, both sequences are raised by the leap, and every shard becomes free.
-- Input:  the server's identity; length of the leap
-- Output: 1 if the server has changed
local meta, identity, leap = at('meta'), ARGV[1], tonumber(ARGV[2])
local before = redis.call('HGET', meta, 'server')
if before == identity or not redis.call('HGET', meta, 'shards') then
    return 0
end
redis.call('HSET', meta, 'server', identity)
if not before then
    return 0
end
redis.call('INCRBY', at('generation'), whole(leap))
redis.call('INCRBY', at('epoch'), whole(leap))
for _, shard in ipairs(all_shards()) do
    redis.call('HDEL', at('shard:' .. shard), 'owner', 'until')
end
return 1
