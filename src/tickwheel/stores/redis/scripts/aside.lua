-- Lists the names (target and handler) of unroutable jobs: the first 100 names in order.
-- Output: for each name: target, handler, number of jobs, place of the first job
local names, found = redis.call('SMEMBERS', at('aside')), {}
table.sort(names)
for i = 1, math.min(#names, 100) do
    local name = names[i]
    local cut = name:find('\0', 1, true)
    append(found, name:sub(1, cut - 1), name:sub(cut + 1))
    append(found, redis.call('ZCARD', at('aside:' .. name)), redis.call('ZRANGE', at('aside:' .. name), 0, 0)[1] or '')
end
return found
