-- Reads due jobs that are in some lanes, or in none of these lanes (see `LaneSet`).
-- Input:  end of the range, as a BYLEX bound; maximum number of jobs of each shard; maximum number of members to read
--         of each shard; 1 for jobs in the lanes, or 0 for all other jobs; checksums of lanes, of whole targets, and of
--         lanes that are excepted from these targets; and for each shard: its number, and the start of the range
-- Output: for each shard: frames of jobs; the due time and generation up to which it was read, or empty if it was read
--         to the end
local till, limit, rows, inside, found = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4] == '1', {}
local sub = string.sub

local function set_of(packed)
    local set = {}
    for _, each in ipairs(cmsgpack.unpack(packed)) do
        set[each] = true
    end
    return set
end

local names, targets, others = set_of(ARGV[5]), set_of(ARGV[6]), set_of(ARGV[7])
local by_target = next(targets) ~= nil

for n = 8, #ARGV, 2 do
    local members = redis.call('ZRANGE', at('due:' .. ARGV[n]), ARGV[n + 1], till, 'BYLEX', 'LIMIT', 0, rows)
    local keys, reached = {}, #members == rows and members[rows] or ''
    for _, member in ipairs(members) do
        local lane = sub(member, LANE, PLACE)
        local is_in = names[lane] or (by_target and targets[sub(lane, 1, 2)] and not others[lane]) or false
        if is_in == inside then
            keys[#keys + 1] = sub(member, PLACE + 1)
            if #keys == limit then
                reached = member
                break
            end
        end
    end
    append(found, frames_of(keys, true), sub(reached, 1, 16))
end
return found
