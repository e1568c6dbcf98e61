-- What processes that do not own the file ask of the owner: whether a counted attempt has started. Each is forgotten after a
-- minute.
CREATE TABLE tickwheel_question (
    generation INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    key TEXT NOT NULL,
    asked_at INTEGER NOT NULL,
    has_started INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (generation, due_at, attempt)
) WITHOUT ROWID;
