-- Input:  how many shards there are; the bounds of the steps, one more than there are steps
-- Output: how many pending jobs lie in each step
local counts = {}
for i = 2, #ARGV - 1 do
    local count = 0
    for shard = 0, ARGV[1] - 1 do
        count = count + redis.call('ZLEXCOUNT', at('due:' .. shard), '[' .. ARGV[i], '(' .. ARGV[i + 1])
    end
    counts[#counts + 1] = count
end
return counts
