-- Input:  the bounds of the steps, one more than there are steps
-- Output: the number of pending jobs in each step
local counts, shards = {}, all_shards()
for i = 1, #ARGV - 1 do
    local count = 0
    for _, shard in ipairs(shards) do
        count = count + redis.call('ZLEXCOUNT', at('due:' .. shard), '[' .. ARGV[i], '(' .. ARGV[i + 1])
    end
    counts[#counts + 1] = count
end
return counts
