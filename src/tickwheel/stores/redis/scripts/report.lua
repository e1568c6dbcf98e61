-- Stores the report of a node. Deletes the reports of nodes whose leases expired long ago.
-- Input:  owner; its figures; time in ms for which a report is kept after the leases have expired
-- Output: 1 if the owner is a live node, else 0
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
