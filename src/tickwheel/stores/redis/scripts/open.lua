-- Creates the store, adds shards to it, or only describes it.
-- Input:  version; minimum number of shards, or 0; default number of shards; if this process has seen the store before:
--         the number of shards at its creation, else 0; the leap of both sequences if that store has disappeared; the
--         number of this partition; the number of partitions; the layout of blobs
-- Output: version; number of shards; number of shards at the creation; number of partitions; layout
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
