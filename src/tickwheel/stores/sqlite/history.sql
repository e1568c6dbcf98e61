-- Statements for the history. Most other statements are in `queries.sql`.

-- name: insert_record
INSERT INTO tickwheel_history (
    at, key, generation, attempt, outcome, by, target, handler, due_at, begun_at, took_ms, error, traceback, trace, note,
    nominal_at, was_due_at, bulk
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: cut_off
-- columns: those that the history records of an attempt
INSERT INTO tickwheel_history (at, key, generation, attempt, outcome, by, target, handler, due_at, trace)
SELECT ?, key, generation, attempt, 'cut_off', coalesce((SELECT owner FROM tickwheel_ledger), ''), target, handler, due_at,
    trace
FROM tickwheel_job WHERE shard = 0 AND due_at = ? AND generation = ?;

-- name: history
SELECT number, at, key, generation, attempt, outcome, by, target, handler, due_at, begun_at, took_ms, error, traceback, trace, note,
    nominal_at, was_due_at, bulk
FROM tickwheel_history WHERE key = ? AND number < ?
ORDER BY number DESC LIMIT ?;

-- name: acts
SELECT number, at, key, generation, attempt, outcome, by, target, handler, due_at, begun_at, took_ms, error, traceback, trace, note,
    nominal_at, was_due_at, bulk
FROM tickwheel_history INDEXED BY tickwheel_history_act
WHERE attempt = 0 AND bulk IS NULL AND at >= ? AND at < ?
ORDER BY at DESC, number DESC LIMIT ?;

-- name: keep_minute
INSERT OR REPLACE INTO tickwheel_minute (span_ms, at, owner, figures) VALUES (?, ?, ?, ?);

-- name: minutes
SELECT owner, at, span_ms, figures FROM tickwheel_minute WHERE span_ms = ? AND at >= ? AND at < ? ORDER BY at, owner;

-- name: forget_minutes
DELETE FROM tickwheel_minute WHERE (span_ms = ? AND at < ?) OR (span_ms = ? AND at < ?);

-- name: count_history
-- Counts all records except those in the log of acts, which has a limit of its own.
SELECT (SELECT count(*) FROM tickwheel_history) - (
    SELECT count(*) FROM tickwheel_history INDEXED BY tickwheel_history_act WHERE attempt = 0 AND bulk IS NULL
);

-- name: count_old_history
-- Counts the old records among the first records by number; the caller then deletes this number of records from the
-- front. This assumes that numbers grow with time. If the clock was set back, a younger record may be deleted before an
-- older one.
SELECT count(*) FROM (SELECT at FROM tickwheel_history ORDER BY number LIMIT ?) WHERE at < ?;

-- name: front_of_history
SELECT max(number) FROM (SELECT number FROM tickwheel_history ORDER BY number LIMIT ?);

-- name: front_of_others
SELECT max(number) FROM (
    SELECT number FROM tickwheel_history WHERE attempt > 0 OR bulk IS NOT NULL ORDER BY number LIMIT ?
);

-- name: surplus_acts
SELECT number FROM tickwheel_history INDEXED BY tickwheel_history_act WHERE attempt = 0 AND bulk IS NULL
ORDER BY at DESC, number DESC LIMIT ? OFFSET ?;

-- name: long_histories
-- Keys with more records than the limit, not counting the log of acts. Returns each key with the number of the newest
-- record to delete.
SELECT key, (
    SELECT number FROM tickwheel_history WHERE key = h.key AND (attempt > 0 OR bulk IS NOT NULL)
    ORDER BY number DESC LIMIT 1 OFFSET ?
)
FROM (SELECT key FROM tickwheel_history GROUP BY key HAVING count(*) > ?) AS h
WHERE (SELECT count(*) FROM tickwheel_history WHERE key = h.key AND (attempt > 0 OR bulk IS NOT NULL)) > ? LIMIT ?;

-- name: delete_history
DELETE FROM tickwheel_history WHERE number <= ?;

-- name: delete_others
DELETE FROM tickwheel_history WHERE number <= ? AND (attempt > 0 OR bulk IS NOT NULL);

-- name: delete_act
DELETE FROM tickwheel_history WHERE number = ?;

-- name: shorten_history
DELETE FROM tickwheel_history
WHERE number IN (
    SELECT number FROM tickwheel_history WHERE key = ? AND number <= ? AND (attempt > 0 OR bulk IS NOT NULL)
    ORDER BY number LIMIT ?
);
