-- Raises the sequence of generations.
-- Input:  minimum of the last generation given out
if (tonumber(redis.call('GET', at('generation'))) or 0) < tonumber(ARGV[1]) then
    redis.call('SET', at('generation'), ARGV[1])
end
