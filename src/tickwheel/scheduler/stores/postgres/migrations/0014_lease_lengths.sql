-- How long a lease is, in ms, so that one whose end is further away than that is known for what it is: written before the
-- clock was set back. 0 where a node wrote it that does not know this.
ALTER TABLE tickwheel_shard ADD COLUMN lease_ms bigint NOT NULL DEFAULT 0;
ALTER TABLE tickwheel_node ADD COLUMN lease_ms bigint NOT NULL DEFAULT 0;
