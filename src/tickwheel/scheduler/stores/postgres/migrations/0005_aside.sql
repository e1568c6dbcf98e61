-- Jobs that were set aside, because the owner of their shard lacks their handler, are in the last shard there can be, which
-- nobody owns. A begin changes none of these columns, so that it still rewrites the row in place.
CREATE INDEX tickwheel_job_aside ON tickwheel_job (target, handler, due_at, generation) WHERE shard = 2147483647;
