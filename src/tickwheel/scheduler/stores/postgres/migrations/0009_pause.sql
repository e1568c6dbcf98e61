-- Who paused a job, when and why. One that is pending is in the last shard but one that there can be: nothing there is due.
ALTER TABLE tickwheel_job ADD COLUMN pause text;

CREATE INDEX tickwheel_job_paused ON tickwheel_job (key) WHERE shard = 2147483646;
