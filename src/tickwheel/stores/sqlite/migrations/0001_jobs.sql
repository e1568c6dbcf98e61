-- Jobs are kept in the order in which they fall due: jobs that fire together are read, claimed and deleted from the same
-- few pages, and a look-up of due jobs costs as much as its answer. Shard -1 holds dead jobs, -2 the pending jobs that the
-- owner cannot run, -3 the pending jobs that are paused, and -4 far jobs (see tickwheel_level).
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
    -- The message id of a run that was tried under another generation.
    sent_as TEXT,
    -- The function that raised the error.
    raised_in TEXT,
    -- When a job of level -4 is due; NULL on all other shards.
    instant INTEGER,
    PRIMARY KEY (shard, due_at, generation)
) WITHOUT ROWID;

CREATE INDEX tickwheel_job_recurring ON tickwheel_job (key) WHERE recurrence IS NOT NULL;

CREATE INDEX tickwheel_job_manifest ON tickwheel_job (manifest, key) WHERE manifest IS NOT NULL;

CREATE INDEX tickwheel_job_aside ON tickwheel_job (target, handler, due_at, generation) WHERE shard = -2;

-- Where the job of a key is. A key is on one shelf: -1 to -3 as the shards above, 0 if its job is due within a minute of
-- being set, 1 and more for the others. Keys come in no order, so that each costs a page of its own on a large shelf; the
-- short-lived keys share the few pages of a small one.
CREATE TABLE tickwheel_key (
    shelf INTEGER NOT NULL,
    key TEXT NOT NULL,
    due_at INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    PRIMARY KEY (shelf, key)
) WITHOUT ROWID;

-- The shelves, and the number of keys that a run was made of: from 2 on a shelf is a run, whose keys were written in order.
-- Shelf 1 comes before the runs: it has the newest keys of jobs due later than within a minute. A key in a run is a hint,
-- which counts only if the row that it names exists. The keys of a shelf with a goal are being moved there, from the first
-- to the last.
CREATE TABLE tickwheel_shelf (shelf INTEGER PRIMARY KEY, size INTEGER NOT NULL, goal INTEGER);

INSERT INTO tickwheel_shelf VALUES (-3, 0, NULL), (-2, 0, NULL), (-1, 0, NULL), (0, 0, NULL), (1, 0, NULL);

-- Bloom filters over the keys of a run, two bytes per key: one for each part that was moved there, which ends with a key.
CREATE TABLE tickwheel_filter (shelf INTEGER NOT NULL, last TEXT NOT NULL, bits BLOB NOT NULL, PRIMARY KEY (shelf, last)) WITHOUT ROWID;

-- The job of a key of shelf 0 or more is on one of two levels, where `due_at` is the start of a slot that is `width` ms
-- wide. Level 0 has a slot for each ms. On level -4 a slot is half a day: far jobs are appended to it in the order in which
-- they are set, so that a commit of many writes few pages. As a slot comes near, the owner sorts it into level 0 (see
-- `cascade`).
CREATE TABLE tickwheel_level (shard INTEGER PRIMARY KEY, width INTEGER NOT NULL);

INSERT INTO tickwheel_level VALUES (-4, 43200000), (0, 1);

-- The jobs of level -4 that were moved or cancelled: leaving their rows in place costs no page. They are deleted with
-- their slot. One bit for each generation, which is never given out twice: 63 in a row.
CREATE TABLE tickwheel_gone (span INTEGER PRIMARY KEY, bits INTEGER NOT NULL);

-- All other jobs.
CREATE VIEW tickwheel_live AS SELECT * FROM tickwheel_job AS j WHERE shard <> -4 OR NOT EXISTS (
    SELECT 1 FROM tickwheel_gone WHERE span = j.generation / 63 AND bits >> j.generation % 63 & 1
);

-- Jobs that another process than the owner made pending since the owner last looked: such a process knows where a job is,
-- not what the owner has read. A resumed job keeps its generation, so its note has a number of its own (`generation`), and
-- the generation in `resumed`: notes are read in their order.
CREATE TABLE tickwheel_note (
    generation INTEGER PRIMARY KEY,
    due_at INTEGER NOT NULL,
    resumed INTEGER
);

-- Questions of other processes to the owner: has this claimed attempt started? Each is deleted after a minute.
CREATE TABLE tickwheel_question (
    generation INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    key TEXT NOT NULL,
    asked_at INTEGER NOT NULL,
    has_started INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (generation, due_at, attempt)
) WITHOUT ROWID;

-- Past attempts in the order of commits, with their errors and the last note of each handler. A one-shot job that succeeds
-- adds no row unless the user asks for it. The table is pruned from its front; the index finds the past of a key, and keys
-- with too many rows.
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
    -- The bulk act that an act is part of.
    bulk TEXT
);

CREATE INDEX tickwheel_history_key ON tickwheel_history (key, number);

CREATE INDEX tickwheel_history_act ON tickwheel_history (at, number) WHERE attempt = 0 AND bulk IS NULL;

-- The figures of each node by minute and by quarter of an hour, as JSON that no statement looks into.
CREATE TABLE tickwheel_minute (
    span_ms INTEGER NOT NULL,
    at INTEGER NOT NULL,
    owner TEXT NOT NULL,
    figures TEXT NOT NULL,
    PRIMARY KEY (span_ms, at, owner)
);

-- Paused scopes (a handler, a queue, a target, or everything): who paused each, when and why.
CREATE TABLE tickwheel_scope (
    scope TEXT PRIMARY KEY,
    paused_at INTEGER NOT NULL,
    by TEXT NOT NULL,
    note TEXT NOT NULL
) WITHOUT ROWID;

-- The manifests (named lists of recurring jobs) that were declared: their jobs name them in a column of their own. `rules`
-- is JSON: the rules of those jobs whose runs are counted.
CREATE TABLE tickwheel_manifest (
    name TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    digest TEXT NOT NULL,
    revision INTEGER,
    rules TEXT NOT NULL
) WITHOUT ROWID;

-- The answers to writes of requests that may come twice, each in the transaction of its write: see stores/_onces.py. Each
-- commit that adds some deletes some that have lapsed.
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

-- One row: the last generation given out, the number of jobs in each state, the owner, and `gone`, the number of bits in
-- tickwheel_gone. `floor` is an instant below which no job is pending and due: claimed jobs stay at the front until they
-- end, and a look-up of due jobs starts behind them. A commit that makes a job pending below lowers it; commits of the
-- owner raise it.
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
