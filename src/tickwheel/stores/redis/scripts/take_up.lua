-- Moves unroutable jobs that a node can run into one of the node's shards.
-- Input:  shard; its epoch; maximum number of jobs; the skills of the node: target, 1 or empty, handler, ..., where 1
--         means this handler, and empty all handlers of the target; the owner; texts that a recurrence must not
--         contain; generations to skip, of eight bytes each
-- Output: frames of jobs
local shard, limit = ARGV[1], tonumber(ARGV[3])
local names = redis.call('SMEMBERS', at('aside'))
if #names == 0 then
    return ''
end
local owner, epoch = unpack(redis.call('HMGET', at('shard:' .. shard), 'owner', 'epoch'))
if owner ~= ARGV[5] or epoch ~= ARGV[2] then
    return ''
end

local has_skill, skills = {}, cmsgpack.unpack(ARGV[4])
for i = 1, #skills, 3 do
    has_skill[skills[i + 1] == '' and skills[i] or skills[i] .. '\0' .. skills[i + 2]] = true
end

local unreadable = cmsgpack.unpack(ARGV[6])
local function is_readable(blob)
    local recurrence = #unreadable > 0 and column_of(blob, HAS_RECURRENCE)
    for _, part in ipairs(unreadable) do
        if recurrence and recurrence:find(part, 1, true) then
            return false
        end
    end
    return true
end

local is_unfit = {}
for _, generation in ipairs(cmsgpack.unpack(ARGV[7])) do
    is_unfit[generation] = true
end

local is_paused = {}
for _, scope in ipairs(redis.call('HKEYS', at('scopes'))) do
    is_paused[scope] = true
end

local keys = {}
for _, name in ipairs(names) do
    local target = name:sub(1, name:find('\0', 1, true) - 1)
    local is_open = not (is_paused['*'] or is_paused[target] or is_paused[name:gsub('%z', ':', 1)])
    if is_open and (has_skill[name] or has_skill[target]) then
        local from = at('aside:' .. name)
        local left = 0 -- number of jobs at the front that must stay
        repeat
            local members = redis.call('ZRANGE', from, left, left + limit - #keys - 1)
            for _, member in ipairs(members) do
                local key = member:sub(PLACE + 1)
                local blob = redis.call('HGET', at('jobs'), key)
                if is_readable(blob) and not is_unfit[member:sub(9, 16)] then
                    redis.call('HSET', at('jobs'), key, placed(blob:sub(1, PLACE) .. '\0' .. blob:sub(FLAGS), shard))
                    redis.call('ZREM', from, member)
                    redis.call('ZADD', at('due:' .. shard), 0, member)
                    keys[#keys + 1] = key
                else
                    left = left + 1
                end
            end
        until #members == 0 or #keys >= limit
        if redis.call('EXISTS', from) == 0 then
            redis.call('SREM', at('aside'), name)
        end
        if #keys >= limit then
            break
        end
    end
end
return frames_of(keys, true)
