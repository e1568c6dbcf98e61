-- What every script begins with. KEYS[1] is where all keys of the store begin: a hash tag, so that a cluster keeps
-- them together.
--   meta          hash    version, shards
--   generation    string  the last one given out
--   epoch         string  the last one given out
--   jobs          hash    key -> blob (see _blob.py)
--   keys          zset    all keys, in the order of their bytes
--   due:SHARD     zset    place .. key of what is pending
--   running       hash    key -> place and shard of what runs
--   dead          zset    the keys of dead jobs
--   note:SHARD    zset    keys that others than the owner made pending, by generation
--   shard:SHARD   hash    owner, epoch, until, watermark
--   nodes         zset    who is there, by the instant until which they were seen
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

-- Calls a command with as many arguments at a time as Lua's stack takes; returns the replies' elements in one table.
local function all(command, key, list)
    local replies = {}
    for first = 1, #list, CHUNK do
        local reply = redis.call(command, key, unpack(list, first, math.min(first + CHUNK - 1, #list)))
        if type(reply) == 'table' then
            for _, each in ipairs(reply) do
                replies[#replies + 1] = each
            end
        end
    end
    return replies
end

local function append(list, ...)
    for _, each in ipairs({...}) do
        list[#list + 1] = each
    end
end

-- The jobs of some keys as one string, which read_rows of _blob.py takes apart; keys without a job are left out.
local function frames_of(keys)
    local blobs, marks = all('HMGET', at('jobs'), keys), all('HMGET', at('running'), keys)
    local frames = {}
    for i, key in ipairs(keys) do
        local blob, mark = blobs[i], marks[i] or ''
        if blob then
            append(frames, struct.pack('>I4I4I4', #key, #blob, #mark), key, blob, mark)
        end
    end
    return table.concat(frames)
end
