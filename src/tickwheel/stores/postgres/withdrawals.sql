-- Statements for withdrawal requests, by which other nodes ask a shard's owner whether a claimed attempt has started.

-- name: forget_withdrawal_requests
DELETE FROM tickwheel_question WHERE asked_at < floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - %s;

-- name: request_withdrawal
INSERT INTO tickwheel_question (shard, generation, due_at, attempt, key, asked_at)
SELECT shard, generation, due_at, attempt, key, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
FROM unnest(%s::integer[], %s::bigint[], %s::bigint[], %s::integer[], %s::text[])
    AS q (shard, generation, due_at, attempt, key)
ON CONFLICT (generation, due_at, attempt) DO UPDATE SET asked_at = excluded.asked_at, shard = excluded.shard;

-- name: shards_of_running
SELECT k.key, j.shard FROM unnest(%s::text[]) AS k (key) CROSS JOIN LATERAL (
    SELECT shard, state FROM tickwheel_job WHERE tickwheel_job.key = k.key OFFSET 0
) AS j
WHERE j.state = 1;

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
FROM (
    SELECT found.ctid
    FROM unnest(%s::bigint[], %s::bigint[], %s::integer[]) AS n (generation, due_at, attempt) CROSS JOIN LATERAL (
        SELECT f.ctid FROM tickwheel_question AS f
        WHERE f.generation = n.generation AND f.due_at = n.due_at AND f.attempt = n.attempt OFFSET 0
    ) AS found OFFSET 0
) AS n
WHERE q.ctid = n.ctid;

-- name: attempts
-- columns: those that identify an attempt
SELECT n.generation, coalesce(q.has_started, false)
FROM unnest(%s::text[], %s::bigint[], %s::bigint[], %s::integer[]) AS n (key, generation, due_at, attempt)
CROSS JOIN LATERAL (
    SELECT state, generation, due_at, attempt FROM tickwheel_job WHERE tickwheel_job.key = n.key OFFSET 0
) AS j LEFT JOIN LATERAL (
    SELECT has_started FROM tickwheel_question AS f
    WHERE f.generation = n.generation AND f.due_at = n.due_at AND f.attempt = n.attempt OFFSET 0
) AS q ON true
WHERE j.state = 1 AND (j.generation, j.due_at, j.attempt) = (n.generation, n.due_at, n.attempt);
