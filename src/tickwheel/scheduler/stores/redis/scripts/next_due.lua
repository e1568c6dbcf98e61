-- Input:  shard
-- Output: the place of the first pending job, or nothing
local first = redis.call('ZRANGE', at('due:' .. ARGV[1]), '-', '+', 'BYLEX', 'LIMIT', 0, 1)
return first[1] and first[1]:sub(1, 20) or ''
