-- What every script begins with. KEYS[1] is where all keys of the store begin: a hash tag, so that a cluster keeps
-- them together.
--   meta          hash    version, layout (see _blob.py), shards, first: how many shards there were then; server: which it
--                         was the last time;
--                         partitions: of how many this is one, if there are others (see _partition.py)
--   generation    string  the last one given out
--   epoch         string  the last one given out
--   jobs          hash    key -> blob (see _blob.py)
--   keys          zset    all keys, in the order of their bytes
--   due:SHARD     zset    place .. key of what is pending
--   aside         set     the names of what was set aside: target, NUL, handler
--   aside:NAME    zset    place .. key of what was set aside under that name
--   running       hash    key -> place and shard of what runs
--   dead          zset    the keys of dead jobs
--   dead_due      zset    the same keys, by their instants (see dead.lua)
--   paused        zset    the keys of pending jobs that are paused
--   scopes        hash    what is paused as a whole -> JSON (see _scopes.py)
--   manifests     hash    what was declared -> JSON (see _manifests.py)
--   manifest:NAME zset    the keys of the jobs that belong to that manifest
--   once:TOKEN    hash    part -> answer (see stores/_onces.py) of a request that may come twice; it expires with the last
--   note:SHARD    zset    keys that others than the owner made pending, by generation
--   shard:SHARD   hash    owner, epoch, until; length: of the lease, in ms
--   tails         set     the numbers of shards that are tails: what ran in one that was handed over
--   questions     hash    counted attempts that others ask about (see _withdrawals.py)
--   nodes         zset    who is there, by the instant until which they were seen
--   history:KEY   zset    number, space and record (see _history.py) of what happened to a job, by number
--   history       zset    the keys that have a past, by the instant of their oldest record
--   history_sizes zset    the same keys, by how many records they have
--   acts          zset    number, space, size of the key, space, key and record of the last acts and events, by instant
--   minutes       hash    length, start and node -> its figures for a minute or a quarter of an hour (see _minutes.py)
--   history_facts hash    number: the last one given out; count: of all records
--   reports       hash    node -> that instant, when it last reported, and its figures
local base = KEYS[1]
local CHUNK = 2000

local function at(name)
    return base .. ':' .. name
end

local function now_ms()
    local time = redis.call('TIME')
    return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function whole(number)
    return string.format('%.0f', number)
end

-- What nodes last reported, by their names.
local function reports()
    local list, found = redis.call('HGETALL', at('reports')), {}
    for i = 1, #list, 2 do
        local till, heard_at, figures = list[i + 1]:match('^(%d+) (%d+) (.*)$')
        found[list[i]] = {till = tonumber(till), heard_at = heard_at, figures = figures}
    end
    return found
end

-- Calls a command with as many arguments at a time as Lua's stack takes; returns the replies' elements in one table.
local function all(command, key, list)
    if #list > 0 and #list <= CHUNK then
        return redis.call(command, key, unpack(list))
    end
    local replies = {}
    for first = 1, #list, CHUNK do
        local reply = redis.call(command, key, unpack(list, first, math.min(first + CHUNK - 1, #list)))
        if type(reply) == 'table' then
            for i = 1, #reply do
                replies[first - 1 + i] = reply[i]
            end
        end
    end
    return replies
end

-- Written out, since a table for the arguments of each call would cost as much as the commands.
local function append(list, a, b)
    local size = #list
    list[size + 1], list[size + 2] = a, b
end

-- The jobs of some keys as one string, which read_rows of _blob.py takes apart; keys without a job are left out.
local function frames_of(keys, are_pending)
    local blobs, there = all('HMGET', at('jobs'), keys), {}
    for i = 1, #keys do
        if blobs[i] then
            there[#there + 1] = keys[i]
        end
    end
    local marks, frames = are_pending and {} or all('HMGET', at('running'), there), {}
    for i = 1, #keys do
        local key, blob = keys[i], blobs[i]
        if blob then
            local mark = marks[#frames + 1] or ''
            frames[#frames + 1] = struct.pack('>I4I4I4', #key, #blob, #mark) .. key .. blob .. mark
        end
    end
    return table.concat(frames)
end

-- The numbers of all shards, the tails last.
local function all_shards()
    local numbers = {}
    for shard = 0, (redis.call('HGET', at('meta'), 'shards') or 0) - 1 do
        numbers[shard + 1] = shard
    end
    for _, tail in ipairs(redis.call('SMEMBERS', at('tails'))) do
        numbers[#numbers + 1] = tonumber(tail)
    end
    return numbers
end

-- The instant at the beginning of a blob, as a number.
local function due_of(blob)
    local high, low = struct.unpack('>I4I4', blob)
    return (high - 2147483648) * 4294967296 + low
end

local function flags_of(blob)
    return (struct.unpack('>I2', blob, FLAGS))
end

local function has(flags, flag)
    return flags % (2 * flag) >= flag
end

-- Where the target of a blob ends, and where its handler does.
local function ends_of(blob)
    local target_size, handler_size = struct.unpack('>I2I4', blob, SIZES)
    return HEAD + target_size, HEAD + target_size + handler_size
end

local function target_of(blob, target_end)
    return has(flags_of(blob), HAS_TARGET) and blob:sub(HEAD + 1, target_end) or 'handler'
end

-- The value of an optional column with that flag, or nothing, and where the payload of the blob begins.
local function column_of(blob, wanted)
    local flags, value = flags_of(blob), nil
    local _, stop = ends_of(blob)
    stop = stop + (has(flags, HAS_SHARD) and 2 or 0)
    local flag = FIRST_COLUMN
    while flag <= LAST_COLUMN do
        if has(flags, flag) then
            local size = struct.unpack('>I4', blob, stop + 1)
            if flag == wanted then
                value = blob:sub(stop + 5, stop + 4 + size)
            end
            stop = stop + 4 + size
        end
        flag = 2 * flag
    end
    return value, stop + 1
end

-- A blob with the number of the shard where its job is, if that is not the one that its key had at first.
local function placed(blob, shard)
    local _, head_end = ends_of(blob)
    local flags = flags_of(blob)
    local has_shard = has(flags, HAS_SHARD)
    local rest = head_end + (has_shard and 3 or 1)
    return blob:sub(1, STATE) .. struct.pack('>I2', has_shard and flags or flags + HAS_SHARD)
        .. blob:sub(FLAGS + 2, head_end) .. struct.pack('>I2', shard) .. blob:sub(rest)
end

-- The set that has the pending job of that blob, unless it is paused; the shard is the one that its key had at first, for a
-- blob that names none.
local function set_of(blob, shard)
    local state = blob:byte(STATE)
    if state ~= 3 and not has(flags_of(blob), HAS_SHARD) then
        return 'due:' .. shard
    end
    local target_end, handler_end = ends_of(blob)
    if state == 3 then
        return 'aside:' .. target_of(blob, target_end) .. '\0' .. blob:sub(target_end + 1, handler_end)
    end
    return 'due:' .. struct.unpack('>I2', blob, handler_end + 1)
end

local BULK = 17

-- Keeps a record, which begins with its instant, of what happened to the job of a key.
local function keep_record(key, record)
    local number = redis.call('HINCRBY', at('history_facts'), 'number', 1)
    redis.call('HINCRBY', at('history_facts'), 'count', 1)
    redis.call('ZADD', at('history:' .. key), number, whole(number) .. ' ' .. record)
    redis.call('ZADD', at('history'), 'NX', record:match('%d+'), key)
    redis.call('ZINCRBY', at('history_sizes'), 1, key)
    local instant = record:match('^%[(%-?%d+),%d+,0,')
    if instant and not cjson.decode(record)[BULK] then
        redis.call('ZADD', at('acts'), instant, string.format('%016.0f %d ', number, #key) .. key .. record)
        redis.call('ZREMRANGEBYRANK', at('acts'), 0, -1 - ACTS_MAX)
    end
end
