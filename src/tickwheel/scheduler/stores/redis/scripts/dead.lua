-- Reads the dead jobs that were due last, without their payloads.
-- Input:  how many of the latest to leave out; how many at most
-- Output: frames of jobs; how many keys were looked at
local order = at('dead_due')

-- What a former version wrote has no order yet.
if redis.call('ZCARD', order) ~= redis.call('ZCARD', at('dead')) then
    local keys, places = redis.call('ZRANGE', at('dead'), 0, -1), {}
    local blobs = all('HMGET', at('jobs'), keys)
    for i, key in ipairs(keys) do
        append(places, whole(due_of(blobs[i])), key)
    end
    redis.call('DEL', order)
    all('ZADD', order, places)
end

local function without_payload(blob)
    local _, stop = ends_of(blob)
    local flags = blob:byte(22)
    stop = stop + (flags % 128 >= 64 and 2 or 0) + (flags % 4 >= 2 and 8 or 0)
    for _, bit in ipairs({4, 8, 16, 32, 128}) do
        if flags % (2 * bit) >= bit then
            stop = stop + 4 + struct.unpack('>I4', blob, stop + 1)
        end
    end
    return blob:sub(1, stop)
end

local keys, frames = redis.call('ZRANGE', order, ARGV[1], ARGV[1] + ARGV[2] - 1, 'REV'), {}
for i, blob in ipairs(all('HMGET', at('jobs'), keys)) do
    local head = without_payload(blob)
    frames[i] = struct.pack('>I4I4I4', #keys[i], #head, 0) .. keys[i] .. head
end
return {table.concat(frames), #keys}
