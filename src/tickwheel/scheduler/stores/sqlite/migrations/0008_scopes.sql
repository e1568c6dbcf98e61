-- What is paused as a whole: a handler, a queue, a target, or everything; who paused it, when and why.
CREATE TABLE tickwheel_scope (
    scope TEXT PRIMARY KEY,
    paused_at INTEGER NOT NULL,
    by TEXT NOT NULL,
    note TEXT NOT NULL
) WITHOUT ROWID;
