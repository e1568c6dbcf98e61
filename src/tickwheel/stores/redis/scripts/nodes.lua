-- Lists who fires, and who did a moment ago and has not released.
-- Input:  for how many ms an ended node is kept
-- Output: of each node its owner; when its leases end; when it last reported, "0" for never; that report
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
