-- Statements for the far level (see `_far.py`). Most other statements are in `queries.sql`.

-- name: insert_far_job
-- columns: a plain job has the defaults in all other columns (see `columns.PLAIN`)
INSERT INTO tickwheel_job (shard, state, attempt, due_at, generation, instant, key, payload, target, handler, first_set_at)
VALUES (-4, 0, 0, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: first_slot
SELECT min(due_at) FROM tickwheel_job WHERE shard = -4 AND due_at >= ? AND due_at < ?;

-- name: jobs_of_slot
SELECT @columns(due_at = instant)
FROM tickwheel_live
WHERE shard = -4 AND due_at = ? AND instant < ? AND (instant, generation) > (?, ?)
ORDER BY instant, generation LIMIT ?;

-- name: jobs_of_slot_in_lanes
-- Returns only the jobs of some lanes, or of all other lanes: see `jobs_in_lanes`.
SELECT @columns(due_at = instant) FROM (
    SELECT *, target || ':' || CASE WHEN target IN ('handler', 'pull') THEN handler
        WHEN NOT instr(handler, '://') THEN ''
        ELSE substr(handler, 1, instr(handler, '://') + 1 + instr(
            replace(replace(substr(handler, instr(handler, '://') + 3), char(63), '/'), '#', '/') || '/', '/'
        )) END AS lane
    FROM tickwheel_live
    WHERE shard = -4 AND due_at = ? AND instant < ? AND (instant, generation) > (?, ?) AND (instant, generation) <= (?, ?)
)
WHERE (lane IN (SELECT value FROM json_each(?)) OR (
    target IN (SELECT value FROM json_each(?)) AND lane NOT IN (SELECT value FROM json_each(?))
)) = ?
ORDER BY instant, generation LIMIT ?;

-- name: stretch
-- The part of a slot that one commit moves, which follows a given generation. Returns its last generation, its earliest
-- instant, and its number of rows.
SELECT max(generation), min(instant), count(*) FROM (
    SELECT generation, instant FROM tickwheel_job WHERE shard = -4 AND due_at = ? AND generation > ?
    ORDER BY generation LIMIT ?
);

-- name: gone_of_stretch
SELECT generation FROM tickwheel_job AS j CROSS JOIN tickwheel_gone AS g
    ON g.span = j.generation / 63 AND bits >> j.generation % 63 & 1
WHERE shard = -4 AND due_at = ? AND generation > ? AND generation <= ?;

-- name: cascade
INSERT INTO tickwheel_job (shard, @columns)
SELECT 0, @columns(due_at = instant)
FROM tickwheel_live WHERE shard = -4 AND due_at = ? AND generation <= ?
ORDER BY instant, generation;

-- name: end_cascade
DELETE FROM tickwheel_job WHERE shard = -4 AND due_at = ? AND generation <= ?;

-- name: lower_floor
UPDATE tickwheel_ledger SET floor = min(floor, ?);

-- name: bury_job
INSERT INTO tickwheel_gone (span, bits) VALUES (?, ?) ON CONFLICT DO UPDATE SET bits = bits | excluded.bits;

-- name: unbury_job
UPDATE tickwheel_gone SET bits = bits & ~? WHERE span = ?;

-- name: delete_empty_span
DELETE FROM tickwheel_gone WHERE span = ? AND bits = 0;

-- name: count_gone
UPDATE tickwheel_ledger SET gone = gone + ?;

-- name: is_wasteful
SELECT gone > pending + ? FROM tickwheel_ledger;
