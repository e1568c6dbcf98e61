-- Keeps what a node last reported of itself, and forgets those that ended long ago.
-- Input:  owner, its figures, for how many ms an ended node is kept
-- Output: 1 if it is among the nodes
local now, till = now_ms(), redis.call('ZSCORE', at('nodes'), ARGV[1])
for owner, report in pairs(reports()) do
    if report.till + tonumber(ARGV[3]) < now then
        redis.call('HDEL', at('reports'), owner)
    end
end
if not till then
    return 0
end
redis.call('HSET', at('reports'), ARGV[1], whole(tonumber(till)) .. ' ' .. whole(now) .. ' ' .. ARGV[2])
return 1
