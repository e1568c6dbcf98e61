-- Jobs lie in the order in which they fall due, so that what fires together is read, begun and deleted from the same
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

-- Where the job of a key lies.
CREATE TABLE tickwheel_key (
    key TEXT NOT NULL PRIMARY KEY,
    shard INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    generation INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX tickwheel_key_dead ON tickwheel_key (key) WHERE shard = -1;

-- What others than the owner made pending since it last looked: they know where a job lies, not what the owner has read.
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
