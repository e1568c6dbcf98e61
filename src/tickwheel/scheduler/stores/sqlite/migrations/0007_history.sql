-- What happened to jobs, in the order of commits: attempts that ended, with their errors. A job that fires once and succeeds
-- leaves nothing here, unless that is asked for. The table is pruned from its front; the index finds the past of one key, and
-- keys that have too much of it.
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
    trace TEXT
);

CREATE INDEX tickwheel_history_key ON tickwheel_history (key, number);
