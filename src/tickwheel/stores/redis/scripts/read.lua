-- Reads the jobs of some keys.
-- Input:  keys, as a packed list; names of manifests, in the same way
-- Output: frames of jobs, the clock in ms, the last generation given out, what is kept of each manifest or nothing
local keys, names = cmsgpack.unpack(ARGV[1]), cmsgpack.unpack(ARGV[2])
local manifests = {}
for i, text in ipairs(all('HMGET', at('manifests'), names)) do
    manifests[i] = text or ''
end
return {frames_of(keys), whole(now_ms()), redis.call('GET', at('generation')) or '0', manifests}
