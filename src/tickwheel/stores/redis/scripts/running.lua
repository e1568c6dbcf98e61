-- Output: the keys of what runs
return redis.call('HKEYS', at('running'))
