-- Extends an owner's leases, and releases those above its fair share. If the owner may take shards, it gets free shards
-- up to its share, and all free tails.
-- Input:  owner; the lease's length in ms; 1 if it may take shards; the partition's number; the number of partitions
-- Output: the clock in ms; shard, epoch, end, number of rescued jobs, ...; empty if there is no store
local FIRST_TAIL, TAILS = 40000, 25000
local owner, length, may_take = ARGV[1], tonumber(ARGV[2]), ARGV[3] == '1'
local number, partitions = tonumber(ARGV[4]), tonumber(ARGV[5])
local shards = tonumber(redis.call('HGET', at('meta'), 'shards'))
if not shards then
    return {}
end
local now = now_ms()
local lease_end = whole(now + length)
local leases, mine, tails, free, free_tails = {whole(now)}, {}, {}, {}, {}
local longest = length

for _, shard in ipairs(all_shards()) do
    local place = at('shard:' .. shard)
    local holder, epoch, till, its_length = unpack(redis.call('HMGET', place, 'owner', 'epoch', 'until', 'length'))
    if holder and its_length then
        longest = math.max(longest, tonumber(its_length))
        -- This lease was written before the clock was set back. Shorten it to one length from now; a live owner renews
        -- it before that.
        if tonumber(till) > now + its_length then
            till = whole(now + its_length)
            redis.call('HSET', place, 'until', till)
        end
    end
    -- An expired lease still belongs to its owner if no other node has taken it.
    local is_free, is_tail = not holder or (holder ~= owner and tonumber(till) < now), shard >= FIRST_TAIL
    if is_free or holder == owner then
        local list = is_free and (is_tail and free_tails or free) or (is_tail and tails or mine)
        list[#list + 1] = {shard, epoch, holder or ''}
    end
end

redis.call('ZREMRANGEBYSCORE', at('nodes'), '-inf', '(' .. whole(now))
for _, node in ipairs(redis.call('ZRANGEBYSCORE', at('nodes'), '(' .. whole(now + longest), '+inf')) do
    redis.call('ZADD', at('nodes'), whole(now + longest), node)
    local report = redis.call('HGET', at('reports'), node)
    if report then
        redis.call('HSET', at('reports'), node, whole(now + longest) .. ' ' .. whole(now) .. report:match('^%d+ %d+(.*)$'))
    end
end
redis.call('ZADD', at('nodes'), lease_end, owner)
-- If the shards do not divide evenly, the first nodes by name get one shard more; in the next partition, the nodes
-- after them do. Over all partitions, shares differ by at most one.
local nodes, before = redis.call('ZRANGE', at('nodes'), 0, -1), 0
for i = 1, #nodes do
    if nodes[i] < owner then
        before = before + 1
    end
end
local over = shards % #nodes
local place = (before - number * over) % #nodes
local share = math.floor(shards / #nodes) + (place < over and 1 or 0)

local function keep(lease)
    redis.call('HSET', at('shard:' .. lease[1]), 'until', lease_end, 'length', length)
    append(leases, lease[1], lease[2])
    append(leases, lease_end, 0)
end

-- Returns the history record of an attempt that its owner claimed and did not end.
local function cut_off(blob, mark, before)
    local high, low, generation, attempt = struct.unpack('>I4I4I8I4', mark)
    local target_end, handler_end = ends_of(blob)
    return '[' .. table.concat({
        whole(now), whole(generation), whole(attempt), '"cut_off"', cjson.encode(before), cjson.encode(target_of(blob, target_end)),
        cjson.encode(blob:sub(target_end + 1, handler_end)), whole((high - 2147483648) * 4294967296 + low),
    }, ',') .. ']'
end

-- Running jobs of shards that are handed over move into tails, which keep the owner and the epoch.
local is_surplus, tail_of, busy = {}, {}, {}
for n = share + 1, #mine do
    is_surplus[mine[n][1]] = mine[n][2]
end
local running = (#mine > share or #tails > 0) and redis.call('HGETALL', at('running')) or {}
for i = 1, #running, 2 do
    local key, mark = running[i], running[i + 1]
    local shard = struct.unpack('>I2', mark, PLACE + 1)
    local epoch = is_surplus[shard]
    if epoch then
        if not tail_of[shard] then
            local tail = FIRST_TAIL + tonumber(epoch) % TAILS
            while redis.call('EXISTS', at('shard:' .. tail)) == 1 do
                tail = FIRST_TAIL + (tail + 1 - FIRST_TAIL) % TAILS
            end
            tail_of[shard] = tail
            tails[#tails + 1] = {tail, epoch}
            redis.call('SADD', at('tails'), tail)
            redis.call('HSET', at('shard:' .. tail), 'owner', owner, 'epoch', epoch)
        end
        shard = tail_of[shard]
        redis.call('HSET', at('running'), key, mark:sub(1, PLACE) .. struct.pack('>I2', shard))
        redis.call('HSET', at('jobs'), key, placed(redis.call('HGET', at('jobs'), key), shard))
    end
    busy[shard] = true
end
for n, lease in ipairs(mine) do
    if n <= share then
        keep(lease)
    else
        redis.call('HDEL', at('shard:' .. lease[1]), 'owner', 'until')
    end
end
for _, lease in ipairs(tails) do
    if busy[lease[1]] or redis.call('EXISTS', at('due:' .. lease[1])) == 1 then
        keep(lease)
    else
        redis.call('SREM', at('tails'), lease[1])
        redis.call('DEL', at('shard:' .. lease[1]), at('note:' .. lease[1]))
    end
end
if not may_take then
    return leases
end

local rescued, before_of, is_any = {}, {}, false
for n = 1, math.min(math.max(share - #mine, 0), #free) do
    rescued[free[n][1]], before_of[free[n][1]], is_any = 0, free[n][3], true
end
for _, lease in ipairs(free_tails) do
    rescued[lease[1]], before_of[lease[1]], is_any = 0, lease[3], true
end
if not is_any then
    return leases
end
running = redis.call('HGETALL', at('running'))
for i = 1, #running, 2 do
    local key, mark = running[i], running[i + 1]
    local shard = struct.unpack('>I2', mark, PLACE + 1)
    if rescued[shard] then
        local blob = redis.call('HGET', at('jobs'), key)
        -- A job that was paused while it ran moves to the paused jobs.
        local is_paused = has(flags_of(blob), HAS_PAUSE)
        redis.call('HSET', at('jobs'), key, mark:sub(1, PLACE) .. (is_paused and '\6' or blob:sub(STATE, STATE)) .. blob:sub(FLAGS))
        redis.call('ZADD', at(is_paused and 'paused' or 'due:' .. shard), 0, (is_paused and '' or mark:sub(1, PLACE)) .. key)
        redis.call('HDEL', at('running'), key)
        keep_record(key, cut_off(blob, mark, before_of[shard]))
        rescued[shard] = rescued[shard] + 1
    end
end
for shard, count in pairs(rescued) do
    local epoch = redis.call('INCRBY', at('epoch'), partitions)
    redis.call('HSET', at('shard:' .. shard), 'owner', owner, 'epoch', epoch, 'until', lease_end,
        'length', length)
    redis.call('DEL', at('note:' .. shard))
    append(leases, shard, epoch)
    append(leases, lease_end, count)
end
return leases
