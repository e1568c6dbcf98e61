-- Stores the report of a node, and deletes reports of nodes that ended long ago.
-- Input:  owner; its figures; time in ms for which an ended node is listed
-- Output: 1 if the owner is among the nodes
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
