-- Reads what is due in some shards.
-- Input:  from and until, as the bounds of a range by bytes; how many of each shard at most; shards ...
-- Output: frames of jobs
local frames = {}
for i = 4, #ARGV do
    local members = redis.call('ZRANGE', at('due:' .. ARGV[i]), ARGV[1], ARGV[2], 'BYLEX', 'LIMIT', 0, ARGV[3])
    for n, member in ipairs(members) do
        members[n] = member:sub(21)
    end
    frames[#frames + 1] = frames_of(members, true)
end
return table.concat(frames)
