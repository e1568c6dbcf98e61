-- Makes the store, lets it grow, or says what there is.
-- Input:  version; how many shards there are to be at least, or 0; how many a new store gets without that; of a store
--         that was there before, how many it had at first, or 0, and how far both sequences leap if it is gone;
--         which partition this is, and of how many; the layout of blobs
-- Output: version and shards of what is there now, how many shards there were at first, how many partitions, the layout
local meta, wanted, usual = at('meta'), tonumber(ARGV[2]), ARGV[3]
local first, leap = tonumber(ARGV[4]), tonumber(ARGV[5])
local number, partitions = ARGV[6], tonumber(ARGV[7])
local there = tonumber(redis.call('HGET', meta, 'partitions')) or (redis.call('EXISTS', meta) == 0 and partitions or 1)
if there ~= partitions then
    return {ARGV[1], '1', '1', whole(there), ARGV[8]}
end
if redis.call('HEXISTS', meta, 'version') == 0 then
    redis.call('HSET', meta, 'layout', ARGV[8])
elseif redis.call('HGET', meta, 'layout') ~= ARGV[8] then
    local answer = redis.call('HMGET', meta, 'version', 'shards', 'first')
    append(answer, whole(there), redis.call('HGET', meta, 'layout'))
    return answer
end
if partitions > 1 then
    redis.call('HSETNX', meta, 'partitions', partitions)
    redis.call('SETNX', at('generation'), number)
    redis.call('SETNX', at('epoch'), number)
end
if first > 0 and redis.call('HEXISTS', meta, 'version') == 0 then
    redis.call('HSET', meta, 'first', first)
    redis.call('INCRBY', at('generation'), whole(leap))
    redis.call('INCRBY', at('epoch'), whole(leap))
end
redis.call('HSETNX', meta, 'version', ARGV[1])
redis.call('HSETNX', meta, 'shards', wanted > 0 and wanted or usual)
local version, shards = unpack(redis.call('HMGET', meta, 'version', 'shards'))
version, shards = tonumber(version), tonumber(shards)
if version and shards and version <= tonumber(ARGV[1]) then
    redis.call('HSET', meta, 'version', ARGV[1])
    redis.call('HSETNX', meta, 'first', shards)
    redis.call('HSET', meta, 'shards', math.max(shards, wanted))
end
local answer = redis.call('HMGET', meta, 'version', 'shards', 'first')
append(answer, whole(there), ARGV[8])
return answer
