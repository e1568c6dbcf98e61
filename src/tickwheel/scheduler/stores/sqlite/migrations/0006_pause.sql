-- Who paused a job, when and why. One that is pending is on shard -3, and its key on shelf -3: nothing there is due.
ALTER TABLE tickwheel_job ADD COLUMN pause TEXT;

-- A note has a number of its own where its job was resumed, which keeps its generation: notes are read in their order.
ALTER TABLE tickwheel_note ADD COLUMN resumed INTEGER;
