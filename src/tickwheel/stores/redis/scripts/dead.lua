-- Reads the dead jobs with the latest due times, without their payloads.
-- Input:  number of latest jobs to skip; maximum number of jobs
-- Output: frames of jobs; number of keys read
local order = at('dead_due')

-- Dead jobs that an earlier version wrote are not in dead_due yet.
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
    local _, payload_at = column_of(blob)
    return blob:sub(1, payload_at - 1)
end

local keys, frames = redis.call('ZRANGE', order, ARGV[1], ARGV[1] + ARGV[2] - 1, 'REV'), {}
for i, blob in ipairs(all('HMGET', at('jobs'), keys)) do
    local head = without_payload(blob)
    frames[i] = struct.pack('>I4I4I4', #keys[i], #head, 0) .. keys[i] .. head
end
return {table.concat(frames), #keys}
