-- One row a key. A begin changes no indexed column, so that it rewrites the row in place: hence the room in the
-- pages,
-- and hence no index by state. Dead jobs have shard -1 - s, out of the way of what is due in shard s.
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
    shard integer NOT NULL
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 50000);

CREATE INDEX tickwheel_job_due ON tickwheel_job (shard, due_at, generation);

CREATE INDEX tickwheel_job_dead ON tickwheel_job (key) WHERE shard < 0;

CREATE SEQUENCE tickwheel_generation;

-- Epochs of all shards come from one sequence: no two leases ever share one.
CREATE SEQUENCE tickwheel_epoch;

-- Which owner may fire what, by this server's clock. `running` is never less than what runs: a rescue ends when it has
-- met so many.
CREATE TABLE tickwheel_shard (
    shard integer PRIMARY KEY,
    owner text,
    epoch bigint NOT NULL DEFAULT 0,
    lease_until bigint NOT NULL DEFAULT 0,
    watermark bigint NOT NULL DEFAULT 0,
    running bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

-- Which owners are there, and so how many share the shards.
CREATE TABLE tickwheel_node (
    owner text PRIMARY KEY,
    seen_until bigint NOT NULL
);

-- Counts by state, spread over rows so that writers do not wait for each other; the sum is exact.
CREATE TABLE tickwheel_count (
    slot integer PRIMARY KEY,
    pending bigint NOT NULL DEFAULT 0,
    running bigint NOT NULL DEFAULT 0,
    dead bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 10);

INSERT INTO tickwheel_count (slot) SELECT generate_series(0, 31);

-- What others than the owner made pending; the owner takes them away.
CREATE TABLE tickwheel_note (
    shard integer NOT NULL,
    generation bigint NOT NULL,
    key text COLLATE "C" NOT NULL,
    PRIMARY KEY (shard, generation)
);
