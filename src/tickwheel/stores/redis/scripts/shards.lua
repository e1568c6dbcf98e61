-- Lists who owns what now.
-- Output: of each shard its number; its owner, "" for nobody; its epoch; when its lease ends, "0" for nobody's
local now, found = now_ms(), {}
for _, shard in ipairs(all_shards()) do
    local owner, epoch, till = unpack(redis.call('HMGET', at('shard:' .. shard), 'owner', 'epoch', 'until'))
    local is_held = owner and tonumber(till) >= now
    append(found, shard, is_held and owner or '')
    append(found, epoch or '0', is_held and till or '0')
end
return found
