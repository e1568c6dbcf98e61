-- Lists the live nodes, and the nodes whose leases have expired recently.
-- Input:  time in ms for which a node is listed after its leases have expired
-- Output: for each node: owner; end of its leases; time of its last report, or "0"; the report
local now, found, nodes = now_ms(), {}, reports()
local here = redis.call('ZRANGE', at('nodes'), 0, -1, 'WITHSCORES')
for i = 1, #here, 2 do
    nodes[here[i]] = nodes[here[i]] or {heard_at = '0', figures = ''}
    nodes[here[i]].till = tonumber(here[i + 1])
end
for owner, node in pairs(nodes) do
    if node.till + tonumber(ARGV[1]) >= now then
        append(found, owner, whole(node.till))
        append(found, node.heard_at, node.figures)
    end
end
return found
