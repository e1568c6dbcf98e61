-- The job of a key of shelf 0 or 1 is on one of two levels, where `due_at` is the start of a slot so many ms wide. Level 0
-- has a slot for each ms. On level -4 a slot is half a day: far jobs come to its end in the order in which they are set, so
-- that a commit of many writes few pages. As a slot comes near, the owner sorts it into level 0 (see `cascade`).
CREATE TABLE tickwheel_level (shard INTEGER PRIMARY KEY, width INTEGER NOT NULL);

INSERT INTO tickwheel_level VALUES (-4, 43200000), (0, 1);

-- When a job of level -4 is due; NULL on all other shards.
ALTER TABLE tickwheel_job ADD COLUMN instant INTEGER;
