-- Frees what an owner holds of some shards; or all of it, and counts it out.
-- Input:  owner; the shards, or none for all
-- Output: 1
local named = {unpack(ARGV, 2)}
for _, shard in ipairs(#named > 0 and named or all_shards()) do
    local place = at('shard:' .. shard)
    if redis.call('HGET', place, 'owner') == ARGV[1] then
        redis.call('HDEL', place, 'owner', 'until')
    end
end
if #named == 0 then
    redis.call('ZREM', at('nodes'), ARGV[1])
end
return 1
