-- Lists the shards with their current owners.
-- Output: for each shard: number; owner, or ""; epoch; end of the lease, or "0" without an owner
local now, found = now_ms(), {}
for _, shard in ipairs(all_shards()) do
    local owner, epoch, till = unpack(redis.call('HMGET', at('shard:' .. shard), 'owner', 'epoch', 'until'))
    local is_held = owner and tonumber(till) >= now
    append(found, shard, is_held and owner or '')
    append(found, epoch or '0', is_held and till or '0')
end
return found
