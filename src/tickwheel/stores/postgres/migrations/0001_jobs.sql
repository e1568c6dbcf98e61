-- One row per key. No index contains the state, so a claim changes no indexed column, and PostgreSQL need not write the
-- indexes. The jobs of a page are often due together and claimed together. The fillfactor reserves room on the page for
-- a second version of each row. Dead jobs of shard s are in shard -1 - s, out of the way of its due jobs. Unroutable
-- jobs are in shard 2147483647, and paused jobs in shard 2147483646; no node owns either.
CREATE TABLE tickwheel_job (
    key text COLLATE "C" PRIMARY KEY,
    generation bigint NOT NULL,
    due_at bigint NOT NULL,
    payload bytea NOT NULL,
    target text NOT NULL,
    handler text NOT NULL,
    attempt integer NOT NULL,
    retry text,
    expires_at bigint,
    recurrence text,
    state smallint NOT NULL,
    error text,
    trace text,
    first_set_at bigint NOT NULL,
    shard integer NOT NULL,
    -- The name, time and note of the pause.
    pause text,
    manifest text COLLATE "C",
    -- The message id of a run whose earlier attempts had another generation.
    sent_as text,
    -- The function that raised the error.
    raised_in text
) WITH (fillfactor = 45, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 50000);

CREATE INDEX tickwheel_job_due ON tickwheel_job (shard, due_at, generation);

CREATE INDEX tickwheel_job_dead ON tickwheel_job (key) WHERE shard < 0;

CREATE INDEX tickwheel_job_recurring ON tickwheel_job (key) WHERE recurrence IS NOT NULL;

CREATE INDEX tickwheel_job_manifest ON tickwheel_job (manifest, key) WHERE manifest IS NOT NULL;

CREATE INDEX tickwheel_job_aside ON tickwheel_job (target, handler, due_at, generation) WHERE shard = 2147483647;

CREATE INDEX tickwheel_job_paused ON tickwheel_job (key) WHERE shard = 2147483646;

-- The declared manifests (named lists of recurring jobs). Each of their jobs names its manifest in a column. `rules` is
-- JSON: the rules of the jobs whose runs are counted. A row of version 0 exists only to be locked.
CREATE TABLE tickwheel_manifest (
    name text COLLATE "C" PRIMARY KEY,
    version bigint NOT NULL DEFAULT 0,
    digest text NOT NULL DEFAULT '',
    revision bigint,
    rules text NOT NULL DEFAULT '{}'
);

-- Answers to requests that clients may repeat. An answer is written in the same transaction as the request's write: see
-- stores/_onces.py. Each commit that adds answers deletes some expired answers.
CREATE TABLE tickwheel_answer (
    token text COLLATE "C" NOT NULL,
    part text COLLATE "C" NOT NULL,
    asked text COLLATE "C" NOT NULL,
    until bigint NOT NULL,
    generation bigint NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (token, part)
);

CREATE INDEX tickwheel_answer_until ON tickwheel_answer (until);

CREATE SEQUENCE tickwheel_generation;

-- The epochs of all shards come from one sequence, so no two leases ever share an epoch.
CREATE SEQUENCE tickwheel_epoch;

-- The lease of each shard: `owner` may fire the shard's jobs until `lease_until`, by this server's clock. A shard from
-- 1000000 on is a tail: it has the running jobs of a shard that was handed over, which stay with the former owner.
-- `lease_ms` is the length of the lease. If a lease ends further away than its length, it was written before the clock
-- was set back. `former` is the previous owner during the transaction that takes the shard over; no other transaction
-- sees it.
CREATE TABLE tickwheel_shard (
    shard integer PRIMARY KEY,
    owner text,
    epoch bigint NOT NULL DEFAULT 0,
    lease_until bigint NOT NULL DEFAULT 0,
    former text,
    lease_ms bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

COMMENT ON COLUMN tickwheel_shard.shard IS 'from 1000000 on the tail of a shard that was handed over';

-- The keys of the jobs that each owner has claimed, in one list for each batch. A takeover finds running jobs by these
-- lists, because no index contains the state. A list may contain jobs that have ended. When all its jobs have ended,
-- the owner overwrites it.
CREATE TABLE tickwheel_begun (
    owner text NOT NULL,
    slot integer NOT NULL,
    keys text[] COLLATE "C" NOT NULL,
    PRIMARY KEY (owner, slot)
) WITH (fillfactor = 50);

-- Compressing the keys of a large batch costs more than writing them uncompressed.
ALTER TABLE tickwheel_begun ALTER keys SET STORAGE EXTERNAL;

-- The live owners, which share the shards. `figures` is the last report of an owner: JSON that no statement parses.
CREATE TABLE tickwheel_node (
    owner text PRIMARY KEY,
    seen_until bigint NOT NULL,
    heard_at bigint,
    figures text,
    lease_ms bigint NOT NULL DEFAULT 0,
    guard text
);

-- Counts by state, spread over rows so that writers do not wait for each other. Only their sum is exact.
CREATE TABLE tickwheel_count (
    slot integer PRIMARY KEY,
    pending bigint NOT NULL DEFAULT 0,
    running bigint NOT NULL DEFAULT 0,
    dead bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 10);

INSERT INTO tickwheel_count (slot) SELECT generate_series(0, 31);

-- Notes of jobs that a process other than the shard's owner has made pending. The owner deletes the notes that it has
-- read. A generation may have several notes: if the owner's lease may have ended, each retry of the job adds a note.
CREATE TABLE tickwheel_note (
    shard integer NOT NULL,
    generation bigint NOT NULL,
    key text COLLATE "C" NOT NULL
);

CREATE INDEX tickwheel_note_shard ON tickwheel_note (shard, generation);

-- Questions that other nodes ask the owners of shards: has this claimed attempt started? Each is deleted after a
-- minute.
CREATE TABLE tickwheel_question (
    shard integer NOT NULL,
    generation bigint NOT NULL,
    due_at bigint NOT NULL,
    attempt integer NOT NULL,
    key text COLLATE "C" NOT NULL,
    asked_at bigint NOT NULL,
    has_started boolean NOT NULL DEFAULT false,
    PRIMARY KEY (generation, due_at, attempt)
);

-- Past attempts, with their errors and the handler's last note on its progress. A one-shot job that succeeds adds no
-- row unless the user asks for it. Pruning deletes the oldest rows. The index by key finds the history of a key, and
-- keys with too many rows.
CREATE TABLE tickwheel_history (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at bigint NOT NULL,
    key text COLLATE "C" NOT NULL,
    generation bigint NOT NULL,
    attempt integer NOT NULL,
    outcome text NOT NULL,
    by text NOT NULL,
    target text NOT NULL,
    handler text NOT NULL,
    due_at bigint NOT NULL,
    begun_at double precision,
    took_ms double precision,
    error text,
    traceback text,
    trace text,
    note text,
    nominal_at bigint,
    -- The due time before an act that changed it.
    was_due_at bigint,
    -- The bulk change that an act is part of.
    bulk text
);

CREATE INDEX tickwheel_history_key ON tickwheel_history (key, number);

CREATE INDEX tickwheel_history_act ON tickwheel_history (at, number) WHERE attempt = 0 AND bulk IS NULL;

-- The figures of each node for each minute and for each quarter of an hour: JSON that no statement parses.
CREATE TABLE tickwheel_minute (
    span_ms integer NOT NULL,
    at bigint NOT NULL,
    owner text COLLATE "C" NOT NULL,
    figures text NOT NULL,
    PRIMARY KEY (span_ms, at, owner)
);

-- Paused scopes (a handler, a queue, a target, or everything), with the user, the time and the reason.
CREATE TABLE tickwheel_scope (
    scope text COLLATE "C" PRIMARY KEY,
    paused_at bigint NOT NULL,
    by text NOT NULL,
    note text NOT NULL
);

-- The server that last assigned numbers from the sequences. After a failover or a restore, another server or timeline
-- answers, whose sequences may be behind the assigned numbers. The OIDs reveal that a dump was restored on the same
-- server: a table that was created again has another OID, and so has a copied database.
CREATE TABLE tickwheel_server (
    system_identifier bigint NOT NULL,
    timeline text NOT NULL,
    table_oid oid,
    database_oid oid
);

INSERT INTO tickwheel_server
SELECT system_identifier, left(pg_walfile_name(pg_current_wal_insert_lsn()), 8),
    'tickwheel_server'::regclass, (SELECT oid FROM pg_database WHERE datname = current_database())
FROM pg_control_system();
