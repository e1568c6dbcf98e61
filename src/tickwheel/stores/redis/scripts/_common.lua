-- Start of every script. KEYS[1] is the common prefix of all keys of the store. It is a hash tag, so that a cluster
-- keeps the keys on one node. A place (see _blob.py) begins with the due time, the generation and the attempt.
--   meta          hash    version; layout (see _blob.py); shards; first: number of shards at the creation; server: the
--                         last known server; partitions: number of partitions, if several (see _partition.py)
--   generation    string  the last generation given out
--   epoch         string  the last epoch given out
--   jobs          hash    key -> blob (see _blob.py)
--   keys          zset    all keys, in the order of their bytes
--   due:SHARD     zset    place .. key, for each pending job
--   aside         set     the names of unroutable jobs: target, NUL, handler
--   aside:NAME    zset    place .. key, for each unroutable job of that name
--   running       hash    key -> place (with the claimed attempt) and shard of each running job
--   dead          zset    the keys of dead jobs
--   dead_due      zset    the keys of dead jobs, by due time (see dead.lua)
--   paused        zset    the keys of paused jobs
--   scopes        hash    name of a paused scope -> JSON (see _scopes.py)
--   manifests     hash    name of a manifest -> JSON (see _manifests.py)
--   manifest:NAME zset    the keys of the manifest's jobs
--   once:TOKEN    hash    part -> kept answer to a request (see stores/_onces.py); expires with the last answer
--   note:SHARD    zset    keys of jobs that another process than the shard's owner made pending, by generation
--   shard:SHARD   hash    owner, epoch, until, and the lease's length in ms
--   tails         set     the numbers of tails: shards with the running jobs of shards that were handed over
--   questions     hash    requests to withdraw claimed attempts, with the owners' answers (see _withdrawals.py)
--   nodes         zset    live nodes, by the end of their leases
--   history:KEY   zset    number, space and record (see _history.py) of each event of a job, by number
--   history       zset    the keys that have a history, by the time of the oldest record
--   history_sizes zset    the keys that have a history, by number of records
--   acts          zset    the log of acts, by time: number, space, size of the key, space, key and record
--   minutes       hash    length, start and node -> the node's figures for that time (see _minutes.py)
--   history_facts hash    number: the last record number; count: number of all records
--   reports       hash    node -> end of its leases, time of its last report, and its figures
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

-- Returns the last report of each node, by name.
local function reports()
    local list, found = redis.call('HGETALL', at('reports')), {}
    for i = 1, #list, 2 do
        local till, heard_at, figures = list[i + 1]:match('^(%d+) (%d+) (.*)$')
        found[list[i]] = {till = tonumber(till), heard_at = heard_at, figures = figures}
    end
    return found
end

-- Calls a command with a long list of arguments, split to fit Lua's stack. Returns the elements of all replies.
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

-- Takes two parameters instead of `...`: a table of arguments for each call would cost as much as the Redis commands.
local function append(list, a, b)
    local size = #list
    list[size + 1], list[size + 2] = a, b
end

-- Returns the jobs of some keys as one string, which `read_rows` in _blob.py parses. Keys without a job are omitted.
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

-- Returns the numbers of all shards, the tails last.
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

-- Returns the due time at the beginning of a blob, as a number.
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

-- Returns the positions of the last bytes of a blob's target and handler.
local function ends_of(blob)
    local target_size, handler_size = struct.unpack('>I2I4', blob, SIZES)
    return HEAD + target_size, HEAD + target_size + handler_size
end

local function target_of(blob, target_end)
    return has(flags_of(blob), HAS_TARGET) and blob:sub(HEAD + 1, target_end) or 'handler'
end

-- Returns the value of the optional column that has the flag *wanted*, or nil; and the position where the payload
-- starts.
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

-- Returns the blob with the shard number inserted or replaced.
local function placed(blob, shard)
    local _, head_end = ends_of(blob)
    local flags = flags_of(blob)
    local has_shard = has(flags, HAS_SHARD)
    local rest = head_end + (has_shard and 3 or 1)
    return blob:sub(1, STATE) .. struct.pack('>I2', has_shard and flags or flags + HAS_SHARD)
        .. blob:sub(FLAGS + 2, head_end) .. struct.pack('>I2', shard) .. blob:sub(rest)
end

-- Returns the name of the sorted set that contains a blob's job, which must be pending and not paused. `shard` is the
-- shard that its key had at the creation of the store. It is used if the blob has no shard number.
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

-- Adds a record to the history of a key. The record begins with its time.
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
