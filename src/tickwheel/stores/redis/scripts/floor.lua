-- Raises the sequence of generations.
-- Input:  the number that the last generation must reach at least
if (tonumber(redis.call('GET', at('generation'))) or 0) < tonumber(ARGV[1]) then
    redis.call('SET', at('generation'), ARGV[1])
end
