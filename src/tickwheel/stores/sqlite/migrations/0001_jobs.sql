-- Jobs are sorted by due time. Jobs that fire together are read, claimed and deleted in the same few pages, and a
-- look-up of due jobs reads only the jobs that it returns. Shard -1 holds dead jobs, -2 unroutable jobs (the owner
-- cannot run them), -3 paused jobs, and -4 far jobs (see tickwheel_level).
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
    -- The name, time and note of the pause.
    pause TEXT,
    manifest TEXT,
    -- The message id of a run whose earlier attempts had another generation.
    sent_as TEXT,
    -- The function that raised the error.
    raised_in TEXT,
    -- The due time of a job of level -4; NULL on all other shards.
    instant INTEGER,
    PRIMARY KEY (shard, due_at, generation)
) WITHOUT ROWID;

CREATE INDEX tickwheel_job_recurring ON tickwheel_job (key) WHERE recurrence IS NOT NULL;

CREATE INDEX tickwheel_job_manifest ON tickwheel_job (manifest, key) WHERE manifest IS NOT NULL;

CREATE INDEX tickwheel_job_aside ON tickwheel_job (target, handler, due_at, generation) WHERE shard = -2;

-- The due time and generation of each key's job, by which its row is found. A key is on one shelf: -1 to -3 for the
-- shards above, 0 if its job is due within a minute of being set, and 1 or more otherwise. Keys arrive in random order,
-- so each new key on a large shelf would change another page. Short-lived keys share the few pages of shelf 0.
CREATE TABLE tickwheel_key (
    shelf INTEGER NOT NULL,
    key TEXT NOT NULL,
    due_at INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    PRIMARY KEY (shelf, key)
) WITHOUT ROWID;

-- The shelves. A shelf from 2 on is a run: its keys were written in order, and `size` is their original number. Shelf 1
-- has the newest keys of jobs that were set for more than a minute later; it is merged into runs. A key in a run is a
-- hint: it is valid only if its job's row exists. If a shelf has a `goal`, its keys are being moved to that shelf, from
-- first to last.
CREATE TABLE tickwheel_shelf (shelf INTEGER PRIMARY KEY, size INTEGER NOT NULL, goal INTEGER);

INSERT INTO tickwheel_shelf VALUES (-3, 0, NULL), (-2, 0, NULL), (-1, 0, NULL), (0, 0, NULL), (1, 0, NULL);

-- Bloom filters over the keys of a run, two bytes per key. Each part of the run that was moved there in one step has a
-- filter; `last` is the last key of the part.
CREATE TABLE tickwheel_filter (shelf INTEGER NOT NULL, last TEXT NOT NULL, bits BLOB NOT NULL, PRIMARY KEY (shelf, last)) WITHOUT ROWID;

-- The job of a key on shelf 0 or more is on one of two levels. `due_at` of its row is the start of a slot that is
-- `width` ms wide. Level 0 has a slot for each ms. On level -4 a slot is half a day: far jobs are appended to their
-- slot in the order in which they are set, so that a commit of many jobs writes few pages. As a slot comes near, the
-- owner sorts its jobs into level 0 (see `cascade`).
CREATE TABLE tickwheel_level (shard INTEGER PRIMARY KEY, width INTEGER NOT NULL);

INSERT INTO tickwheel_level VALUES (-4, 43200000), (0, 1);

-- Marks of jobs of level -4 that were moved or cancelled. Their rows stay until their slot is deleted, because deleting
-- each row would write another page. A row here has one bit for each of 63 generations; generations are never reused.
CREATE TABLE tickwheel_gone (span INTEGER PRIMARY KEY, bits INTEGER NOT NULL);

-- All jobs that are not marked in tickwheel_gone.
CREATE VIEW tickwheel_live AS SELECT * FROM tickwheel_job AS j WHERE shard <> -4 OR NOT EXISTS (
    SELECT 1 FROM tickwheel_gone WHERE span = j.generation / 63 AND bits >> j.generation % 63 & 1
);

-- Notes of jobs that a process other than the owner has made pending since the owner last read the notes. The owner
-- reads notes in order of `generation`. A resumed job keeps its generation: its note has a new number in `generation`,
-- and the job's generation in `resumed`.
CREATE TABLE tickwheel_note (
    generation INTEGER PRIMARY KEY,
    due_at INTEGER NOT NULL,
    resumed INTEGER
);

-- Questions that other processes ask the owner: has this claimed attempt started? Each is deleted after a minute.
CREATE TABLE tickwheel_question (
    generation INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    key TEXT NOT NULL,
    asked_at INTEGER NOT NULL,
    has_started INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (generation, due_at, attempt)
) WITHOUT ROWID;

-- Past attempts in the order of commits, with their errors and the handler's last note on its progress. A one-shot job
-- that succeeds adds no row unless the user asks for it. Pruning deletes the oldest rows. The index by key finds the
-- history of a key, and keys with too many rows.
CREATE TABLE tickwheel_history (
    number INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    key TEXT NOT NULL,
    generation INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    by TEXT NOT NULL,
    target TEXT NOT NULL,
    handler TEXT NOT NULL,
    due_at INTEGER NOT NULL,
    begun_at REAL,
    took_ms REAL,
    error TEXT,
    traceback TEXT,
    trace TEXT,
    note TEXT,
    nominal_at INTEGER,
    -- The due time before an act that changed it.
    was_due_at INTEGER,
    -- The bulk change that an act is part of.
    bulk TEXT
);

CREATE INDEX tickwheel_history_key ON tickwheel_history (key, number);

CREATE INDEX tickwheel_history_act ON tickwheel_history (at, number) WHERE attempt = 0 AND bulk IS NULL;

-- The figures of each node for each minute and for each quarter of an hour: JSON that no statement parses.
CREATE TABLE tickwheel_minute (
    span_ms INTEGER NOT NULL,
    at INTEGER NOT NULL,
    owner TEXT NOT NULL,
    figures TEXT NOT NULL,
    PRIMARY KEY (span_ms, at, owner)
);

-- Paused scopes (a handler, a queue, a target, or everything), with the user, the time and the reason.
CREATE TABLE tickwheel_scope (
    scope TEXT PRIMARY KEY,
    paused_at INTEGER NOT NULL,
    by TEXT NOT NULL,
    note TEXT NOT NULL
) WITHOUT ROWID;

-- The declared manifests (named lists of recurring jobs). Each of their jobs names its manifest in a column. `rules` is
-- JSON: the rules of the jobs whose runs are counted.
CREATE TABLE tickwheel_manifest (
    name TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    digest TEXT NOT NULL,
    revision INTEGER,
    rules TEXT NOT NULL
) WITHOUT ROWID;

-- Answers to requests that clients may repeat. An answer is written in the same transaction as the request's write: see
-- stores/_onces.py. Each commit that adds answers deletes some expired answers.
CREATE TABLE tickwheel_answer (
    token TEXT NOT NULL,
    part TEXT NOT NULL,
    asked TEXT NOT NULL,
    until INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (token, part)
) WITHOUT ROWID;

CREATE INDEX tickwheel_answer_until ON tickwheel_answer (until);

-- One row: the last generation given out, the number of jobs in each state, the owner, and `gone`, the number of bits
-- in tickwheel_gone. No job due before `floor` is pending. Claimed jobs keep their rows at the front of the table until
-- they end. A look-up of due jobs starts behind them, at the floor. A commit lowers the floor if it makes an earlier
-- job pending; commits of the owner raise it.
CREATE TABLE tickwheel_ledger (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    generation INTEGER NOT NULL,
    pending INTEGER NOT NULL,
    running INTEGER NOT NULL,
    dead INTEGER NOT NULL,
    owner TEXT,
    epoch INTEGER NOT NULL,
    watermark INTEGER NOT NULL,
    floor INTEGER NOT NULL DEFAULT -9223372036854775808,
    gone INTEGER NOT NULL DEFAULT 0
);

INSERT INTO tickwheel_ledger (id, generation, pending, running, dead, owner, epoch, watermark)
VALUES (1, 0, 0, 0, 0, NULL, 0, 0);
