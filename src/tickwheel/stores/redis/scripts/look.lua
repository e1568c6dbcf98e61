-- Reads changes and due jobs of some shards. Changes are jobs that other nodes have made pending. Only a shard's owner
-- gets them: a former owner would otherwise take them from its successor. Changes that were read earlier are deleted.
-- Input:  end of the range of due jobs, as a BYLEX bound; maximum number of jobs of each shard; the owner; 1 to read
--         changes, or 0; and for each shard: its number; its epoch; the generation up to which changes were read
--         before, or empty; the start of the range of due jobs; and the bound from which to read one later job, or
--         empty
-- Output: for each shard: frames of changed jobs; the generation up to which changes were read; frames of due jobs
local till, limit, owner, found = ARGV[1], tonumber(ARGV[2]), ARGV[3], {}
local generation = redis.call('GET', at('generation')) or '0'

local function noted(shard, epoch, since)
    local holder = redis.call('HMGET', at('shard:' .. shard), 'owner', 'epoch')
    if holder[1] ~= owner or holder[2] ~= epoch then
        return '', since
    end
    local notes = at('note:' .. shard)
    redis.call('ZREMRANGEBYSCORE', notes, '-inf', since)
    return frames_of(redis.call('ZRANGE', notes, '-inf', '+inf', 'BYSCORE')), generation
end

for n = 5, #ARGV, 5 do
    local shard, epoch, since, from, beyond = unpack(ARGV, n, n + 4)
    local changed, mark = '', generation
    if ARGV[4] == '1' and since ~= '' then
        changed, mark = noted(shard, epoch, since)
    end
    local due = at('due:' .. shard)
    local members = redis.call('ZRANGE', due, from, till, 'BYLEX', 'LIMIT', 0, limit)
    if #members < limit and beyond ~= '' then
        members[#members + 1] = redis.call('ZRANGE', due, beyond, '+', 'BYLEX', 'LIMIT', 0, 1)[1]
    end
    for i, member in ipairs(members) do
        members[i] = member:sub(PLACE + 1)
    end
    append(found, changed, mark)
    found[#found + 1] = frames_of(members, true)
end
return found
