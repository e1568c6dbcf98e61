-- Looks whether it is the server of the last time. Another one, or the same one after a restart, may be behind what
-- was given out: then both sequences leap, and every shard is free.
-- Input:  which server it is; how far to leap
-- Output: 1 if it is another one
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
