-- The statements of scopes that are paused.

-- name: handlers_aside
-- From one name to the next by the index, whatever the number of jobs of each.
WITH RECURSIVE name (handler) AS (
    SELECT min(handler) FROM tickwheel_job WHERE shard = 2147483647 AND target = %(target)s
    UNION ALL
    SELECT (
        SELECT min(j.handler) FROM tickwheel_job AS j
        WHERE j.shard = 2147483647 AND j.target = %(target)s AND j.handler > name.handler
    )
    FROM name WHERE name.handler IS NOT NULL
)
SELECT handler FROM name WHERE handler IS NOT NULL LIMIT %(limit)s;

-- name: scopes
SELECT paused_at, by, note, scope FROM tickwheel_scope ORDER BY scope;

-- name: pause_scope
-- Whether there was a row shows in its xmax.
INSERT INTO tickwheel_scope (scope, paused_at, by, note) VALUES (%s, %s, %s, %s)
ON CONFLICT (scope) DO UPDATE SET paused_at = excluded.paused_at, by = excluded.by, note = excluded.note
RETURNING xmax <> 0;

-- name: resume_scope
DELETE FROM tickwheel_scope WHERE scope = %s RETURNING true;
