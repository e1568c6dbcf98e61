-- Applies a batch of writes, or none of them: everything is checked before anything is written. An empty text means
-- that a value is missing.
-- Input:  owner           the owner that writes, or empty
--         base, drawn     the last generation that the batch has seen, and the number of generations that it adds
--         assumed         shard, epoch, ...: the epochs that the batch assumes; empty for a shard that the owner lacks
--         begins          {shard, member, member, ...}, ...: pending jobs to claim
--         ends            key, place without attempt and shard, ...: running jobs to delete
--         others          key, its shard at the store's creation, old head, old running mark, blob, running mark, ...
--         records         key, record, ...: history records
--         manifests       name, old text, text, ...
--         answers         token, part, old text, text, until, ...: kept answers
-- Output: {'done', the number to add to the batch's new generations}; or
--         {'epochs', shard, epoch, ...} with the present epochs and those of the owner's tails, if an epoch differs; or
--         {'changed'} if a job, a manifest or an answer differs
local owner, seen, drawn = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local assumed, begins = cmsgpack.unpack(ARGV[4]), cmsgpack.unpack(ARGV[5])
local ends, others = cmsgpack.unpack(ARGV[6]), cmsgpack.unpack(ARGV[7])
local records, manifests = cmsgpack.unpack(ARGV[8]), cmsgpack.unpack(ARGV[9])
local answers = cmsgpack.unpack(ARGV[10])
local DEAD, PAUSED, ASIDE, NONE, FIRST = '\2', '\6', 3, '\0\0\0\0', '\0\0\0\1'
local sub = string.sub

local owners = {}
local function owner_of(shard)
    if owners[shard] == nil then
        owners[shard] = redis.call('HGET', at('shard:' .. shard), 'owner') or ''
    end
    return owners[shard]
end

local actual, is_as_assumed = {'epochs'}, true
for i = 1, #assumed, 2 do
    local is_own = owner ~= '' and owner_of(assumed[i]) == owner
    local epoch = is_own and redis.call('HGET', at('shard:' .. assumed[i]), 'epoch') or ''
    is_as_assumed = is_as_assumed and epoch == assumed[i + 1]
    append(actual, assumed[i], epoch)
end
if not is_as_assumed then
    for _, tail in ipairs(redis.call('SMEMBERS', at('tails'))) do
        if owner_of(tail) == owner then
            append(actual, tail, redis.call('HGET', at('shard:' .. tail), 'epoch'))
        end
    end
    return actual
end

local new_running, gone_running, gone_jobs, gone_dead, new_dead, new_keys = {}, {}, {}, {}, {}, {}
local gone_paused, new_paused, new_dead_due = {}, {}, {}
local new_jobs, new_due, gone_due, notes, has_news = {}, {}, {}, {}, false

local function listed(lists, name)
    if not lists[name] then
        lists[name] = {}
    end
    return lists[name]
end

for _, members in ipairs(begins) do
    local shard = table.remove(members, 1)
    local scores = all('ZMSCORE', at('due:' .. shard), members)
    local number = struct.pack('>I2', tonumber(shard))
    for i = 1, #members do
        if not scores[i] then
            return {'changed'}
        end
        local member = members[i]
        local attempt = sub(member, 17, LANE - 1)
        local counted = attempt == NONE and FIRST or struct.pack('>I4', struct.unpack('>I4', attempt) + 1)
        append(new_running, sub(member, PLACE + 1), sub(member, 1, 16) .. counted .. sub(member, LANE, PLACE) .. number)
    end
    gone_due['due:' .. shard] = members
end

for i = 1, #ends, 2 do
    gone_running[#gone_running + 1] = ends[i]
    gone_jobs[#gone_jobs + 1] = ends[i]
end
local ended = all('HMGET', at('running'), gone_running)
for i = 1, #gone_running do
    local mark, place = ended[i], ends[2 * i]
    if not mark or sub(mark, 1, 16) ~= sub(place, 1, 16) or sub(mark, PLACE + 1, PLACE + 2) ~= sub(place, 17, 18) then
        return {'changed'}
    end
end

local keys = {}
for i = 1, #others, 6 do
    keys[#keys + 1] = others[i]
end
local blobs, there, expected = all('HMGET', at('jobs'), keys), {}, {}
for i = 1, #keys do
    local head, blob = others[6 * i - 3], blobs[i] or ''
    if sub(blob, 1, #head) ~= head or (head == '' and blob ~= '') then
        return {'changed'}
    end
    if head ~= '' then
        append(there, keys[i])
        append(expected, others[6 * i - 2])
    end
end
local marks = all('HMGET', at('running'), there)
for i = 1, #there do
    if (marks[i] or '') ~= expected[i] then
        return {'changed'}
    end
end

for i = 1, #manifests, 3 do
    if (redis.call('HGET', at('manifests'), manifests[i]) or '') ~= manifests[i + 1] then
        return {'changed'}
    end
end

for i = 1, #answers, 5 do
    if (redis.call('HGET', at('once:' .. answers[i]), answers[i + 1]) or '') ~= answers[i + 2] then
        return {'changed'}
    end
end

-- All checks have passed: from here on nothing is refused.
local shift = 0
if drawn > 0 then
    shift = math.max(0, (redis.call('GET', at('generation')) or 0) - seen)
    redis.call('SET', at('generation'), whole(seen + shift + drawn))
end
for i = 1, #others, 6 do
    local key, shard, head, mark, blob, new_mark = unpack(others, i, i + 5)
    if head ~= '' and has(flags_of(head), HAS_MANIFEST) then
        redis.call('ZREM', at('manifest:' .. column_of(head, HAS_MANIFEST)), key)
    end
    if blob ~= '' and has(flags_of(blob), HAS_MANIFEST) then
        redis.call('ZADD', at('manifest:' .. column_of(blob, HAS_MANIFEST)), 0, key)
    end
    if blob ~= '' and shift ~= 0 then
        local generation = struct.unpack('>I8', blob, 9)
        if generation > seen then
            blob = sub(blob, 1, 8) .. struct.pack('>I8', generation + shift) .. sub(blob, 17)
        end
    end
    if mark ~= '' then
        gone_running[#gone_running + 1] = key
    elseif sub(head, STATE, STATE) == DEAD then
        gone_dead[#gone_dead + 1] = key
    elseif sub(head, STATE, STATE) == PAUSED then
        gone_paused[#gone_paused + 1] = key
    elseif head ~= '' then
        append(listed(gone_due, set_of(head, shard)), sub(head, 1, PLACE) .. key)
    end
    if blob == '' then
        gone_jobs[#gone_jobs + 1] = key
    else
        append(new_jobs, key, blob)
        if head == '' then
            append(new_keys, 0, key)
        end
        if new_mark ~= '' then
            append(new_running, key, new_mark)
        elseif sub(blob, STATE, STATE) == DEAD then
            append(new_dead, 0, key)
            append(new_dead_due, whole(due_of(blob)), key)
        elseif sub(blob, STATE, STATE) == PAUSED then
            append(new_paused, 0, key)
        else
            local name = set_of(blob, shard)
            append(listed(new_due, name), 0, sub(blob, 1, PLACE) .. key)
            if blob:byte(STATE) == ASIDE then
                has_news = true
            else
                local place = sub(name, 5)
                if owner_of(place) ~= owner and owner_of(place) ~= '' then
                    -- Notes are read in order of generation. A resumed job keeps its generation, so its note gets a new
                    -- number, and comes last.
                    local generation = struct.unpack('>I8', blob, 9)
                    if generation <= seen then
                        generation = (redis.call('GET', at('generation')) or 0) + 1
                    end
                    append(listed(notes, place), whole(generation), key)
                end
            end
        end
    end
end

all('HDEL', at('running'), gone_running)
all('HDEL', at('jobs'), gone_jobs)
all('ZREM', at('keys'), gone_jobs)
all('ZREM', at('dead'), gone_dead)
all('ZREM', at('dead_due'), gone_dead)
all('ZREM', at('paused'), gone_paused)
for name, members in pairs(gone_due) do
    all('ZREM', at(name), members)
    if sub(name, 1, 6) == 'aside:' and redis.call('EXISTS', at(name)) == 0 then
        redis.call('SREM', at('aside'), sub(name, 7))
    end
end
all('HSET', at('jobs'), new_jobs)
all('ZADD', at('keys'), new_keys)
all('HSET', at('running'), new_running)
all('ZADD', at('dead'), new_dead)
all('ZADD', at('dead_due'), new_dead_due)
all('ZADD', at('paused'), new_paused)
for name, members in pairs(new_due) do
    all('ZADD', at(name), members)
    if sub(name, 1, 6) == 'aside:' then
        redis.call('SADD', at('aside'), sub(name, 7))
    end
end
for i = 1, #manifests, 3 do
    if manifests[i + 2] ~= manifests[i + 1] then
        redis.call('HSET', at('manifests'), manifests[i], manifests[i + 2])
    end
end
for i = 1, #answers, 5 do
    local name, part, text, till = at('once:' .. answers[i]), answers[i + 1], answers[i + 3], answers[i + 4]
    if text == '' then
        redis.call('HDEL', name, part)
    else
        local generation = struct.unpack('>I8', text)
        if shift ~= 0 and generation > seen then
            text = struct.pack('>I8', generation + shift) .. sub(text, 9)
        end
        redis.call('HSET', name, part, text)
        if tonumber(till) > redis.call('PEXPIRETIME', name) then
            redis.call('PEXPIREAT', name, till)
        end
    end
end
for shard, members in pairs(notes) do
    all('ZADD', at('note:' .. shard), members)
    has_news = true
end
-- A record begins with its time and the job's generation. If this batch assigned the generation, add *shift* to it.
local function shifted(instant, generation)
    return instant .. whole(tonumber(generation) + (tonumber(generation) > seen and shift or 0))
end
for i = 1, #records, 2 do
    keep_record(records[i], (records[i + 1]:gsub('^(%[%d+,)(%d+)', shifted)))
end
if has_news then
    -- This message is only a hint, because owners also poll. If the user has no right to publish, the error is ignored.
    redis.pcall('SPUBLISH', at('news'), '')
end
return {'done', shift}
