-- Pauses the jobs of a scope, or resumes them.
-- Input:  the scope; the text of its pause, or empty to resume; then, if there is a history record, the scope and the record
-- Output: 1 if the scope was paused before, else 0
local scope, pause = ARGV[1], ARGV[2]
local was_paused = redis.call('HDEL', at('scopes'), scope)
if pause ~= '' then
    redis.call('HSET', at('scopes'), scope, pause)
end
if ARGV[3] and (was_paused == 1 or pause ~= '') then
    keep_record(ARGV[3], ARGV[4])
end
return was_paused
