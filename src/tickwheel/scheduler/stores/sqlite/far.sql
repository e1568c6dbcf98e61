-- The statements of the far level; `queries.sql` has all others.

-- name: insert_far_job
INSERT INTO tickwheel_job (shard, state, attempt, due_at, generation, instant, key, payload, target, handler, first_set_at)
VALUES (-4, 0, 0, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: first_slot
SELECT min(due_at) FROM tickwheel_job WHERE shard = -4 AND due_at >= ? AND due_at < ?;

-- name: jobs_of_slot
SELECT key, generation, instant, payload, target, handler, attempt, retry, expires_at, recurrence, state, error, trace,
    first_set_at
FROM tickwheel_job
WHERE shard = -4 AND due_at = ? AND instant < ? AND (instant, generation) > (?, ?)
ORDER BY instant, generation LIMIT ?;

-- name: end_of_cascade
-- Up to which generation one commit takes the jobs of a slot.
SELECT max(generation), min(instant), count(*) FROM (
    SELECT generation, instant FROM tickwheel_job WHERE shard = -4 AND due_at = ? ORDER BY generation LIMIT 5000
);

-- name: cascade
INSERT INTO tickwheel_job (
    shard, due_at, generation, key, state, attempt, payload, target, handler, retry, expires_at, recurrence, error, trace,
    first_set_at, pause
)
SELECT 0, instant, generation, key, state, attempt, payload, target, handler, retry, expires_at, recurrence, error, trace,
    first_set_at, pause
FROM tickwheel_job WHERE shard = -4 AND due_at = ? AND generation <= ?
ORDER BY instant, generation;

-- name: end_cascade
DELETE FROM tickwheel_job WHERE shard = -4 AND due_at = ? AND generation <= ?;

-- name: lower_floor
UPDATE tickwheel_ledger SET floor = min(floor, ?);
