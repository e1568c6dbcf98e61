-- The shelves of keys that there are, and how many keys a run was made of: from 2 on a shelf is a run, whose keys were
-- written in order. Shelf 1 is what comes before the runs: the newest keys of jobs due later than within a minute. A key in
-- a run is a hint, which counts only if the row is there to which it leads. The keys of a shelf that has a goal are being
-- moved there, from the first to the last.
CREATE TABLE tickwheel_shelf (shelf INTEGER PRIMARY KEY, size INTEGER NOT NULL, goal INTEGER);

INSERT INTO tickwheel_shelf VALUES (-3, 0, NULL), (-2, 0, NULL), (-1, 0, NULL), (0, 0, NULL), (1, 0, NULL);

-- Which keys a run may have, two bytes a key: a filter for each part that was moved there, which ends with a key.
CREATE TABLE tickwheel_filter (shelf INTEGER NOT NULL, last TEXT NOT NULL, bits BLOB NOT NULL, PRIMARY KEY (shelf, last)) WITHOUT ROWID;
