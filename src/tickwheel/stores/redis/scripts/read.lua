-- Reads the jobs of some keys.
-- Input:  keys; names of manifests; tokens of requests; each as a packed list
-- Output: frames of jobs; the clock in ms; the last generation given out; the text of each manifest, or empty; and for each
--         token: part, answer, ...
local keys, names, tokens = cmsgpack.unpack(ARGV[1]), cmsgpack.unpack(ARGV[2]), cmsgpack.unpack(ARGV[3])
local manifests = {}
for i, text in ipairs(all('HMGET', at('manifests'), names)) do
    manifests[i] = text or ''
end
local kept = {}
for i, token in ipairs(tokens) do
    kept[i] = redis.call('HGETALL', at('once:' .. token))
end
return {frames_of(keys), whole(now_ms()), redis.call('GET', at('generation')) or '0', manifests, kept}
