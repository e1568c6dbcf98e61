-- Reads what is due in some shards.
-- Input:  from and until, as the bounds of a range by bytes; how many of each shard at most; shards ..., or all if
--         none is named
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
