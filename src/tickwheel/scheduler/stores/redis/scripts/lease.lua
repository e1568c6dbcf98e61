-- Extends what an owner holds, gives up what is more than its share, and takes what is free up to it.
-- Input:  owner, the lease's length in ms, 1 to take
-- Output: the clock in ms; shard, epoch, end, how many were rescued, ...
local owner, length, may_take = ARGV[1], tonumber(ARGV[2]), ARGV[3] == '1'
local now = now_ms()
local lease_end = whole(now + length)
redis.call('ZREMRANGEBYSCORE', at('nodes'), '-inf', '(' .. whole(now))
redis.call('ZADD', at('nodes'), lease_end, owner)
local shards = tonumber(redis.call('HGET', at('meta'), 'shards'))
-- What is over goes to the first by name, one each: nobody has two more than another.
local nodes, before = redis.call('ZRANGE', at('nodes'), 0, -1), 0
for i = 1, #nodes do
    if nodes[i] < owner then
        before = before + 1
    end
end
local share = math.floor(shards / #nodes) + (before < shards % #nodes and 1 or 0)
local leases, held, mine, free = {whole(now)}, 0, {}, {}

for shard = 0, shards - 1 do
    local holder, epoch, till = unpack(redis.call('HMGET', at('shard:' .. shard), 'owner', 'epoch', 'until'))
    if not holder or tonumber(till) < now then
        free[#free + 1] = shard
    elseif holder == owner then
        mine[#mine + 1] = {shard, epoch}
    end
end
if #mine > share then
    -- Those in which nothing runs go first: what runs elsewhere is fired again.
    local busy, order = {}, {}
    for _, mark in ipairs(redis.call('HVALS', at('running'))) do
        busy[struct.unpack('>I2', mark, 21)] = true
    end
    for _, wanted in ipairs({true, false}) do
        for _, lease in ipairs(mine) do
            if (busy[lease[1]] or false) == wanted then
                order[#order + 1] = lease
            end
        end
    end
    mine = order
end
for _, lease in ipairs(mine) do
    local place = at('shard:' .. lease[1])
    if held < share then
        held = held + 1
        redis.call('HSET', place, 'until', lease_end)
        append(leases, lease[1], lease[2])
        append(leases, lease_end, 0)
    else
        redis.call('HDEL', place, 'owner', 'until')
    end
end
if not may_take or held >= share or #free == 0 then
    return leases
end

local rescued = {}
for n = 1, math.min(share - held, #free) do
    rescued[free[n]] = 0
end
local running = redis.call('HGETALL', at('running'))
for i = 1, #running, 2 do
    local key, mark = running[i], running[i + 1]
    local shard = struct.unpack('>I2', mark, 21)
    if rescued[shard] then
        local blob = redis.call('HGET', at('jobs'), key)
        redis.call('HSET', at('jobs'), key, mark:sub(1, 20) .. blob:sub(21))
        redis.call('ZADD', at('due:' .. shard), 0, mark:sub(1, 20) .. key)
        redis.call('HDEL', at('running'), key)
        rescued[shard] = rescued[shard] + 1
    end
end
for shard, count in pairs(rescued) do
    local epoch = redis.call('INCRBY', at('epoch'), 1)
    redis.call('HSET', at('shard:' .. shard), 'owner', owner, 'epoch', epoch, 'until', lease_end)
    redis.call('DEL', at('note:' .. shard))
    append(leases, shard, epoch)
    append(leases, lease_end, count)
end
return leases
