-- Deletes records of the history, oldest first.
-- Input:  time before which a record is old; maximum number of records of each key; maximum number of all records; maximum
--         number to delete
-- Output: number of deleted records
local since, per_key, total, limit = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local STEP = 100
local gone, count = 0, tonumber(redis.call('HGET', at('history_facts'), 'count') or 0)
redis.call('ZREMRANGEBYSCORE', at('acts'), '-inf', '(' .. since)
since = tonumber(since)

local function instant_of(member)
    return tonumber(member:match(' %D*(%d+)'))
end

-- Deletes the oldest records of a key.
local function shorten(key, number)
    local place = at('history:' .. key)
    local taken = number > 0 and redis.call('ZREMRANGEBYRANK', place, 0, number - 1) or 0
    local first = redis.call('ZRANGE', place, 0, 0)[1]
    if first then
        redis.call('ZADD', at('history'), instant_of(first), key)
        redis.call('ZADD', at('history_sizes'), redis.call('ZCARD', place), key)
    else
        redis.call('ZREM', at('history'), key)
        redis.call('ZREM', at('history_sizes'), key)
    end
    gone = gone + taken
end

-- Returns the key and the time of the oldest record.
local function oldest()
    return unpack(redis.call('ZRANGE', at('history'), 0, 0, 'WITHSCORES'))
end

local key, instant = oldest()
while key and gone < limit and tonumber(instant) < since do
    local number = 0
    for _, member in ipairs(redis.call('ZRANGE', at('history:' .. key), 0, math.min(STEP, limit - gone) - 1)) do
        if instant_of(member) >= since then
            break
        end
        number = number + 1
    end
    shorten(key, number)
    key, instant = oldest()
end
if gone < limit then
    local long = redis.call('ZRANGE', at('history_sizes'), '(' .. per_key, '+inf', 'BYSCORE', 'LIMIT', 0, limit, 'WITHSCORES')
    for i = 1, #long, 2 do
        shorten(long[i], math.min(tonumber(long[i + 1]) - per_key, limit - gone))
    end
end
key = oldest()
while key and gone < limit and count - gone > total do
    shorten(key, 1)
    key = oldest()
end
if gone > 0 then
    redis.call('HINCRBY', at('history_facts'), 'count', -gone)
end
return gone
