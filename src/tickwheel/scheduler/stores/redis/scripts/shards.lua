-- Tells who owns what now.
-- Output: of each shard its owner, "" for nobody; its epoch; when its lease ends, "0" for nobody's
local now, found = now_ms(), {}
for shard = 0, redis.call('HGET', at('meta'), 'shards') - 1 do
    local owner, epoch, till = unpack(redis.call('HMGET', at('shard:' .. shard), 'owner', 'epoch', 'until'))
    local is_held = owner and tonumber(till) >= now
    append(found, is_held and owner or '', epoch or '0')
    append(found, is_held and till or '0')
end
return found
