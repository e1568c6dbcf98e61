-- Output: the keys of running jobs
return redis.call('HKEYS', at('running'))
