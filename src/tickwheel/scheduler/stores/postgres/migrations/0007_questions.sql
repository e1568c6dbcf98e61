-- What nodes ask of the owners of shards: whether a counted attempt has started. Each is forgotten after a minute.
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
