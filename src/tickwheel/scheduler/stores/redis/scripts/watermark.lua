-- Input:  shard
-- Output: its watermark
return redis.call('HGET', at('shard:' .. ARGV[1]), 'watermark') or '0'
