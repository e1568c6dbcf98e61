-- What is paused as a whole: a handler, a queue, a target, or everything; who paused it, when and why.
CREATE TABLE tickwheel_scope (
    scope text COLLATE "C" PRIMARY KEY,
    paused_at bigint NOT NULL,
    by text NOT NULL,
    note text NOT NULL
);
