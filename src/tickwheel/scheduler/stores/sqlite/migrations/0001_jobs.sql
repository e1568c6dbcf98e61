-- Jobs are kept in the order in which they fall due, so that what fires together is read, begun and deleted from the same
-- few pages, and so that a look-up of what is due costs by what it returns. Shard -1 holds the dead ones, out of its way.
CREATE TABLE tickwheel_job (
    shard INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    key TEXT NOT NULL,
    state INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    payload BLOB NOT NULL,
    target TEXT NOT NULL,
    handler TEXT NOT NULL,
    retry TEXT,
    expires_at INTEGER,
    recurrence TEXT,
    error TEXT,
    trace TEXT,
    first_set_at INTEGER NOT NULL,
    PRIMARY KEY (shard, due_at, generation)
) WITHOUT ROWID;

-- Where the job of a key is. Three shelves: -1 for dead jobs, 0 for those that are due within a minute of being set,
-- 1 for the others. A key is on one of them. Keys come in no order, so that each costs a page of its own on a large shelf;
-- the short-lived ones share the few pages of a small one.
CREATE TABLE tickwheel_key (
    shelf INTEGER NOT NULL,
    key TEXT NOT NULL,
    due_at INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    PRIMARY KEY (shelf, key)
) WITHOUT ROWID;

-- What others than the owner made pending since it last looked: they know where a job is, not what the owner has read.
CREATE TABLE tickwheel_note (
    generation INTEGER PRIMARY KEY,
    due_at INTEGER NOT NULL
);

-- One row: the last generation given out, how many jobs there are in each state, and whose they are.
CREATE TABLE tickwheel_ledger (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    generation INTEGER NOT NULL,
    pending INTEGER NOT NULL,
    running INTEGER NOT NULL,
    dead INTEGER NOT NULL,
    owner TEXT,
    epoch INTEGER NOT NULL,
    watermark INTEGER NOT NULL
);

INSERT INTO tickwheel_ledger VALUES (1, 0, 0, 0, 0, NULL, 0, 0);
