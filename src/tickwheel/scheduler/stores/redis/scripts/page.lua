-- Reads a page of a list.
-- Input:  which set of keys; from and until, as the bounds of a range by bytes; how many jobs at most; how many keys
--         to look at, at most; pending to leave out what runs; first and last instant, or nothing; 1 and a handler, or 0;
--         1 to leave out what fires once
-- Output: frames of jobs; how many keys were looked at; the last of them; whether it stopped before the end
local REACH_BYTES = 8 * 1024 * 1024
local limit, reach = tonumber(ARGV[4]), tonumber(ARGV[5])
local is_pending, first, last = ARGV[6] == 'pending', ARGV[7], ARGV[8]
local has_handler, handler = ARGV[9] == '1', ARGV[10]
local is_recurring = ARGV[11] == '1'

-- Lua compares strings by the server's locale, and here bytes count.
local function is_before(a, b)
    local a_high, a_low = struct.unpack('>I4I4', a)
    local b_high, b_low = struct.unpack('>I4I4', b)
    return a_high < b_high or (a_high == b_high and a_low < b_low)
end

local function is_wanted(blob, mark)
    if is_pending and (mark or blob:byte(21) == 2) then
        return false
    end
    if is_recurring and blob:byte(22) % 16 < 8 then
        return false
    end
    if (first ~= '' and is_before(blob, first)) or (last ~= '' and not is_before(blob, last)) then
        return false
    end
    if has_handler then
        local target_size, handler_size = struct.unpack('>I2I4', blob, 31)
        return blob:sub(37 + target_size, 36 + target_size + handler_size) == handler
    end
    return true
end

local found, seen, size = {}, 0, 0
local keys = redis.call('ZRANGE', at(ARGV[1]), ARGV[2], ARGV[3], 'BYLEX', 'LIMIT', 0, reach)
for i, key in ipairs(keys) do
    local blob = redis.call('HGET', at('jobs'), key)
    seen = i
    size = size + #blob
    if is_wanted(blob, is_pending and redis.call('HGET', at('running'), key)) then
        found[#found + 1] = key
    end
    if #found == limit or size > REACH_BYTES then
        break
    end
end
return {frames_of(found), seen, keys[seen] or '', seen < #keys and 1 or 0}
