-- Reads a page of a list of jobs. An empty text means no filter.
-- Input:  the set of keys; start and end of a BYLEX range; maximum number of jobs; maximum number of keys to read; a
--         state (pending, dead or paused); earliest due time, and the due time before which all must be; 1 and a
--         handler, or 0; 1 for recurring jobs only; 1 and a target, or 0; texts that the key, the error and the payload
--         must contain
-- Output: frames of jobs; number of keys read; the last key read; 1 if the page ended before the range, else 0
local REACH_BYTES = 8 * 1024 * 1024
local limit, reach = tonumber(ARGV[4]), tonumber(ARGV[5])
local wanted_state = ({dead = 2, paused = 6})[ARGV[6]]
local is_pending, first, last = ARGV[6] == 'pending', ARGV[7], ARGV[8]
local has_handler, handler = ARGV[9] == '1', ARGV[10]
local is_recurring = ARGV[11] == '1'
local has_target, target = ARGV[12] == '1', ARGV[13]
local part, error_part, payload_part = ARGV[14], ARGV[15], ARGV[16]

-- Compares the first eight bytes, the due time. Lua's own comparison of strings depends on the server's locale.
local function is_before(a, b)
    local a_high, a_low = struct.unpack('>I4I4', a)
    local b_high, b_low = struct.unpack('>I4I4', b)
    return a_high < b_high or (a_high == b_high and a_low < b_low)
end

local function is_wanted(blob, mark)
    if is_pending and (mark or blob:byte(STATE) == 2) then
        return false
    end
    if wanted_state and blob:byte(STATE) ~= wanted_state then
        return false
    end
    if is_recurring and not has(flags_of(blob), HAS_RECURRENCE) then
        return false
    end
    if (first ~= '' and is_before(blob, first)) or (last ~= '' and not is_before(blob, last)) then
        return false
    end
    if payload_part ~= '' then
        local _, payload_at = column_of(blob)
        if not blob:find(payload_part, payload_at, true) then
            return false
        end
    end
    if not (has_handler or has_target or error_part ~= '') then
        return true
    end
    local target_end, handler_end = ends_of(blob)
    if has_handler and blob:sub(target_end + 1, handler_end) ~= handler then
        return false
    end
    if has_target and target_of(blob, target_end) ~= target then
        return false
    end
    return error_part == '' or (column_of(blob, HAS_ERROR) or ''):find(error_part, 1, true) ~= nil
end

local found, seen, size = {}, 0, 0
local keys = redis.call('ZRANGE', at(ARGV[1]), ARGV[2], ARGV[3], 'BYLEX', 'LIMIT', 0, reach)
for i, key in ipairs(keys) do
    seen = i
    if part == '' or key:find(part, 1, true) then
        local blob = redis.call('HGET', at('jobs'), key)
        size = size + #blob
        if is_wanted(blob, is_pending and redis.call('HGET', at('running'), key)) then
            found[#found + 1] = key
        end
    end
    if #found == limit or size > REACH_BYTES then
        break
    end
end
return {frames_of(found), seen, keys[seen] or '', seen < #keys and 1 or 0}
