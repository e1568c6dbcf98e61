-- Reads due jobs of some shards.
-- Input:  from and until, as bounds of a BYLEX range; maximum number of jobs of each shard; shards ..., or none for
--         all shards
-- Output: frames of jobs
local frames, shards = {}, {unpack(ARGV, 4)}
for _, shard in ipairs(#shards > 0 and shards or all_shards()) do
    local members = redis.call('ZRANGE', at('due:' .. shard), ARGV[1], ARGV[2], 'BYLEX', 'LIMIT', 0, ARGV[3])
    for n, member in ipairs(members) do
        members[n] = member:sub(PLACE + 1)
    end
    frames[#frames + 1] = frames_of(members, true)
end
return table.concat(frames)
