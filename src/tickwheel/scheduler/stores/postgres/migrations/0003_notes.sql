-- A retry keeps its generation, and an owner whose lease may have ended leaves a note of each: there may be several.
ALTER TABLE tickwheel_note DROP CONSTRAINT tickwheel_note_pkey;

CREATE INDEX tickwheel_note_shard ON tickwheel_note (shard, generation);
