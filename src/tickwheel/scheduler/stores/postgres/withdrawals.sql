-- What nodes ask each other about counted attempts.

-- name: forget_withdrawal_requests
DELETE FROM tickwheel_question WHERE asked_at < floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - %s;

-- name: request_withdrawal
INSERT INTO tickwheel_question (shard, generation, due_at, attempt, key, asked_at)
SELECT shard, generation, due_at, attempt, key, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
FROM unnest(%s::integer[], %s::bigint[], %s::bigint[], %s::integer[], %s::text[])
    AS q (shard, generation, due_at, attempt, key)
ON CONFLICT (generation, due_at, attempt) DO UPDATE SET asked_at = excluded.asked_at, shard = excluded.shard;

-- name: shards_of_running
SELECT key, shard FROM tickwheel_job
WHERE key = ANY(%s) AND CASE WHEN state = 1 THEN true ELSE false END;

-- name: unowned_shards
SELECT shard FROM tickwheel_shard
WHERE shard = ANY(%s)
    AND (owner IS NULL OR lease_until < floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint);

-- name: withdrawal_requests
SELECT key, generation, due_at, attempt, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - asked_at
FROM tickwheel_question
WHERE shard = ANY(%s) AND NOT has_started;

-- name: report_started
UPDATE tickwheel_question AS q SET has_started = true
FROM unnest(%s::bigint[], %s::bigint[], %s::integer[]) AS n (generation, due_at, attempt)
WHERE q.generation = n.generation AND q.due_at = n.due_at AND q.attempt = n.attempt;

-- name: attempts
-- columns: those that identify an attempt
-- Each job is found by its key, as above.
SELECT n.generation, coalesce(q.has_started, false)
FROM unnest(%s::text[], %s::bigint[], %s::bigint[], %s::integer[]) AS n (key, generation, due_at, attempt)
JOIN tickwheel_job AS j ON j.key = n.key
LEFT JOIN tickwheel_question AS q
    ON q.generation = n.generation AND q.due_at = n.due_at AND q.attempt = n.attempt
WHERE CASE WHEN j.state = 1 THEN (j.generation, j.due_at, j.attempt) = (n.generation, n.due_at, n.attempt) ELSE false END;
