-- What happened to jobs: attempts that ended, with their errors. A job that fires once and succeeds leaves nothing here, unless
-- that is asked for. The table is pruned from its front; the index finds the past of one key, and keys that have too much of it.
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
    trace text
);

CREATE INDEX tickwheel_history_key ON tickwheel_history (key, number);
