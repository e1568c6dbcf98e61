-- Output: the numbers of pending, running and dead jobs
local pending = redis.call('ZCARD', at('paused'))
for _, shard in ipairs(all_shards()) do
    pending = pending + redis.call('ZCARD', at('due:' .. shard))
end
for _, name in ipairs(redis.call('SMEMBERS', at('aside'))) do
    pending = pending + redis.call('ZCARD', at('aside:' .. name))
end
return {pending, redis.call('HLEN', at('running')), redis.call('ZCARD', at('dead'))}
