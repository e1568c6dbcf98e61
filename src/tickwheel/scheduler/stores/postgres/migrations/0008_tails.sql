-- What runs in a shard that is handed over stays with its owner, in a tail. A tickwheel that does not know them would
-- take tails for shards that count for everybody's share; this version keeps it out.
COMMENT ON COLUMN tickwheel_shard.shard IS 'from 1000000 on the tail of a shard that was handed over';
