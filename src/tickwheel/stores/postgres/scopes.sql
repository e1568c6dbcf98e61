-- Statements for unroutable jobs (no node can run them; also called "aside") and for paused scopes.

-- name: aside
-- Each step of the recursion finds the next name (target and handler) in the index, so that a name with many jobs does
-- not hide later names.
WITH RECURSIVE name AS (
    (SELECT target, handler FROM tickwheel_job WHERE shard = 2147483647 ORDER BY target, handler LIMIT 1)
    UNION ALL
    SELECT following.* FROM name CROSS JOIN LATERAL (
        SELECT j.target, j.handler FROM tickwheel_job AS j
        WHERE j.shard = 2147483647 AND (j.target, j.handler) > (name.target, name.handler)
        ORDER BY j.target, j.handler LIMIT 1
    ) AS following
)
SELECT name.target, name.handler, head.count, head.since
FROM (SELECT * FROM name LIMIT 100) AS name CROSS JOIN LATERAL (
    SELECT count(*) AS count, min(due_at) AS since FROM (
        SELECT j.due_at FROM tickwheel_job AS j
        WHERE j.shard = 2147483647 AND j.target = name.target AND j.handler = name.handler ORDER BY j.due_at LIMIT 10000
    ) AS jobs
) AS head;

-- name: handlers_aside
-- columns: only the columns of the index
-- Each step of the recursion finds the next handler in the index. The cost does not depend on the number of jobs of a
-- handler.
WITH RECURSIVE name (handler) AS (
    (
        SELECT j.handler FROM tickwheel_job AS j
        WHERE j.shard = 2147483647 AND j.target = %(target)s
        ORDER BY j.target, j.handler, j.due_at, j.generation LIMIT 1
    ) UNION ALL
    SELECT following.handler FROM name CROSS JOIN LATERAL (
        SELECT j.handler FROM tickwheel_job AS j
        WHERE j.shard = 2147483647 AND j.target = %(target)s AND j.handler > name.handler
        ORDER BY j.target, j.handler, j.due_at, j.generation LIMIT 1
    ) AS following
)
SELECT handler FROM name LIMIT %(limit)s;

-- name: scopes
SELECT paused_at, by, note, scope FROM tickwheel_scope ORDER BY scope;

-- name: pause_scope
-- Returns true if the scope was paused before: `xmax` is not 0 if the row existed.
INSERT INTO tickwheel_scope (scope, paused_at, by, note) VALUES (%s, %s, %s, %s)
ON CONFLICT (scope) DO UPDATE SET paused_at = excluded.paused_at, by = excluded.by, note = excluded.note
RETURNING xmax <> 0;

-- name: resume_scope
DELETE FROM tickwheel_scope WHERE scope = %s RETURNING true;
