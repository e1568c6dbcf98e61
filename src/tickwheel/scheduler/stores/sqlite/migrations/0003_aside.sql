-- Jobs that were set aside, because their owner lacks their handler, are on shard -2, and their keys on shelf -2.
CREATE INDEX tickwheel_job_aside ON tickwheel_job (target, handler, due_at, generation) WHERE shard = -2;
