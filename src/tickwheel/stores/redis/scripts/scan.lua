-- Reads what is due in some lanes, or in all others.
-- Input:  until, as a bound by bytes; how many jobs of each shard at most; how many places it reads of each at most; 1 for
--         the lanes that follow or 0 for all others; the checksums of lanes; and for each shard: its number, and the bound
--         from which on
-- Output: for each shard: frames of jobs; the place up to which it has read, or nothing if it has read all of it
local till, limit, rows, inside, found = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4] == '1', {}
local wanted, sub = {}, string.sub
for _, lane in ipairs(cmsgpack.unpack(ARGV[5])) do
    wanted[lane] = true
end

for n = 6, #ARGV, 2 do
    local members = redis.call('ZRANGE', at('due:' .. ARGV[n]), ARGV[n + 1], till, 'BYLEX', 'LIMIT', 0, rows)
    local keys, reached = {}, #members == rows and members[rows] or ''
    for _, member in ipairs(members) do
        if (wanted[sub(member, LANE, PLACE)] or false) == inside then
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
