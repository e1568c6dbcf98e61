-- Makes the store, or says what there is.
-- Input:  version, shards for a new store
-- Output: version and shards of what is there now
redis.call('HSETNX', at('meta'), 'version', ARGV[1])
if (tonumber(redis.call('HGET', at('meta'), 'version')) or math.huge) < tonumber(ARGV[1]) then
    redis.call('HSET', at('meta'), 'version', ARGV[1])
end
redis.call('HSETNX', at('meta'), 'shards', ARGV[2])
return redis.call('HMGET', at('meta'), 'version', 'shards')
