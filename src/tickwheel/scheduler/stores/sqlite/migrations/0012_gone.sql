-- The jobs of level -4 that count for nothing, since they were moved or cancelled: a row that is left where it is costs no
-- page of its own. They go with their slot. A bit for each generation, of which none is given out twice: 63 in a row.
CREATE TABLE tickwheel_gone (span INTEGER PRIMARY KEY, bits INTEGER NOT NULL);

-- How many there are.
ALTER TABLE tickwheel_ledger ADD COLUMN gone INTEGER NOT NULL DEFAULT 0;

-- All other jobs.
CREATE VIEW tickwheel_live AS SELECT * FROM tickwheel_job AS j WHERE shard <> -4 OR NOT EXISTS (
    SELECT 1 FROM tickwheel_gone WHERE span = j.generation / 63 AND bits >> j.generation % 63 & 1
);
