-- Each statement here is a transaction of its own: see `_alone.py`. Most other statements are in `queries.sql`.

-- name: set_new
-- Inserts plain jobs whose keys are assumed to have no job. Generations are assigned in the order of the writes; rows
-- are inserted in the order of their keys. If all rows have the same value in a column, the value is a scalar
-- parameter, and the column's array is empty. Each job in a shard of `others` gets a note for the owner of that shard.
-- Returns the time; the first generation; and all generations, unless they are consecutive. Fails if the server has
-- changed, or if a key has a job: an ON CONFLICT clause would take a quarter of the statement's time.
-- columns: those of a plain job; all others have their defaults
WITH drawn AS MATERIALIZED (
    SELECT array_agg(number) AS numbers, floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint AS now
    FROM (
        SELECT nextval('tickwheel_generation') AS number
        FROM generate_series(1, cardinality((SELECT %(keys)s::text[])))
    ) AS drawn
), inserted AS (
    INSERT INTO tickwheel_job (key, generation, due_at, payload, target, handler, attempt, retry, expires_at, state,
        trace, first_set_at, shard)
    SELECT n.key, (SELECT numbers FROM drawn)[n.place], coalesce(n.due_at, %(due_at)s::bigint) + moved.ms,
        coalesce(n.payload, %(payload)s::bytea), coalesce(n.target, %(target)s::text),
        coalesce(n.handler, %(handler)s::text), 0, coalesce(n.retry, %(retry)s::text),
        coalesce(n.expires_at, %(expires_at)s::bigint) + moved.ms, 0, coalesce(n.trace, %(trace)s::text),
        (SELECT now FROM drawn), n.shard
    FROM unnest(
        (SELECT %(keys)s::text[]), (SELECT %(places)s::integer[]), (SELECT %(shards)s::integer[]),
        (SELECT %(dues)s::bigint[]), (SELECT %(counted)s::bigint[]), (SELECT %(payloads)s::bytea[]),
        (SELECT %(targets)s::text[]), (SELECT %(handlers)s::text[]), (SELECT %(retries)s::text[]),
        (SELECT %(expiries)s::bigint[]), (SELECT %(traces)s::text[])
    ) AS n (key, place, shard, due_at, counted_from, payload, target, handler, retry, expires_at, trace)
    CROSS JOIN LATERAL (
        SELECT coalesce((SELECT now FROM drawn) - coalesce(n.counted_from, %(counted_from)s::bigint), 0) AS ms
    ) AS moved
), noted AS (
    INSERT INTO tickwheel_note (shard, generation, key)
    SELECT n.shard, (SELECT numbers FROM drawn)[n.place], n.key
    FROM unnest((SELECT %(keys)s::text[]), (SELECT %(places)s::integer[]), (SELECT %(shards)s::integer[]))
        AS n (key, place, shard)
    WHERE cardinality((SELECT %(others)s::integer[])) > 0 AND n.shard = ANY ((SELECT %(others)s::integer[])::integer[])
), counted AS (
    INSERT INTO tickwheel_count AS c (slot, pending)
    VALUES (32 + pg_backend_pid(), cardinality((SELECT %(keys)s::text[])))
    ON CONFLICT (slot) DO UPDATE SET pending = c.pending + excluded.pending
)
SELECT (
    CASE WHEN (
        SELECT timeline = left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) AND table_oid = tableoid
        FROM tickwheel_server
    ) THEN '1' ELSE 'a guess of tickwheel was wrong, and it tries again' END
)::integer, now, numbers[1],
    CASE WHEN numbers[cardinality(numbers)] - numbers[1] >= cardinality(numbers) THEN numbers END
FROM drawn;

-- name: set_one
-- Inserts one plain job, as `set_new` does.
-- columns: those of a plain job; all others have their defaults
WITH drawn AS MATERIALIZED (
    SELECT number, now, coalesce(now - %(counted_from)s::bigint, 0) AS moved_ms FROM (
        SELECT nextval('tickwheel_generation') AS number,
            floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint AS now
    ) AS drawn
), inserted AS (
    INSERT INTO tickwheel_job (key, generation, due_at, payload, target, handler, attempt, retry, expires_at, state,
        trace, first_set_at, shard)
    SELECT %(key)s::text, number, %(due_at)s::bigint + moved_ms, %(payload)s::bytea, %(target)s::text,
        %(handler)s::text, 0, %(retry)s::text, %(expires_at)s::bigint + moved_ms, 0, %(trace)s::text, now,
        %(shard)s::integer
    FROM drawn
), noted AS (
    INSERT INTO tickwheel_note (shard, generation, key)
    SELECT %(shard)s::integer, number, %(key)s::text FROM drawn WHERE %(is_noted)s::boolean
), counted AS (
    INSERT INTO tickwheel_count AS c (slot, pending) VALUES (32 + pg_backend_pid(), 1)
    ON CONFLICT (slot) DO UPDATE SET pending = c.pending + 1
)
SELECT (
    CASE WHEN (
        SELECT timeline = left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) AND table_oid = tableoid
        FROM tickwheel_server
    ) THEN '1' ELSE 'a guess of tickwheel was wrong, and it tries again' END
)::integer, now, number, NULL::bigint[]
FROM drawn;

-- name: move_one
-- Moves a pending job of which nothing but its times has to change: it does not recur, is not paused and was never
-- tried. Returns the job and the time, or no row if the key has no such job. The new generation must be later than the
-- job's: otherwise another writer, which has drawn a later generation, was faster.
WITH drawn AS MATERIALIZED (
    SELECT number, now, %(due_at)s::bigint + coalesce(now - %(counted_from)s::bigint, 0) AS due_at FROM (
        SELECT nextval('tickwheel_generation') AS number,
            floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint AS now
    ) AS drawn
), moved AS (
    UPDATE tickwheel_job AS j SET generation = drawn.number, due_at = drawn.due_at, shard = %(shard)s::integer,
        expires_at = j.expires_at + drawn.due_at - j.due_at
    FROM drawn
    WHERE j.key = %(key)s::text AND CASE WHEN j.state = 0 THEN
        j.recurrence IS NULL AND j.attempt = 0 AND j.sent_as IS NULL AND j.pause IS NULL
        AND j.expires_at IS DISTINCT FROM 0 AND j.generation < drawn.number
        AND coalesce(j.generation = %(generation)s::bigint, true) ELSE false END
    RETURNING @columns(j)
), noted AS (
    INSERT INTO tickwheel_note (shard, generation, key)
    SELECT %(shard)s::integer, generation, key FROM moved WHERE %(is_noted)s::boolean
), counted AS (
    INSERT INTO tickwheel_count AS c (slot) SELECT 32 + pg_backend_pid() FROM moved
    ON CONFLICT (slot) DO UPDATE SET pending = c.pending
)
SELECT @columns, (
    CASE WHEN (
        SELECT timeline = left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) AND table_oid = tableoid
        FROM tickwheel_server
    ) THEN '1' ELSE 'a guess of tickwheel was wrong, and it tries again' END
)::integer, (SELECT now FROM drawn)
FROM moved;

-- name: cancel_one
-- Deletes a pending job that does not recur and is not paused. Returns the job, or no row if the key has no such job.
WITH gone AS (
    DELETE FROM tickwheel_job AS j
    WHERE j.key = %(key)s::text AND CASE WHEN j.state = 0 THEN
        j.recurrence IS NULL AND j.pause IS NULL AND coalesce(j.generation = %(generation)s::bigint, true)
        ELSE false END
    RETURNING @columns(j)
), counted AS (
    INSERT INTO tickwheel_count AS c (slot, pending) SELECT 32 + pg_backend_pid(), -1 FROM gone
    ON CONFLICT (slot) DO UPDATE SET pending = c.pending + excluded.pending
)
SELECT * FROM gone;

-- name: turn
-- Deletes running jobs that have ended, and claims pending jobs. Fails if the owner no longer holds the given leases,
-- or if one of the jobs has changed. The rows of the leases are locked until the commit.
WITH held AS MATERIALIZED (
    SELECT FROM tickwheel_shard AS s
    WHERE (s.shard, s.epoch) IN (
        SELECT * FROM unnest((SELECT %(shards)s::integer[]), (SELECT %(epochs)s::bigint[]))
    ) AND s.owner = %(owner)s::text
    ORDER BY s.shard FOR NO KEY UPDATE
), ended AS (
    DELETE FROM tickwheel_job AS j
    USING (
        SELECT place.*, found.ctid
        FROM unnest(
            (SELECT %(ended_in)s::integer[]), (SELECT %(ended_dues)s::bigint[]), (SELECT %(ended)s::bigint[])
        ) AS place (shard, due_at, generation) CROSS JOIN LATERAL (
            SELECT f.ctid FROM tickwheel_job AS f
            WHERE f.shard = place.shard AND f.due_at = place.due_at AND f.generation = place.generation OFFSET 0
        ) AS found
        WHERE (SELECT count(*) FROM held) = cardinality((SELECT %(shards)s::integer[])) OFFSET 0
    ) AS e
    WHERE j.ctid = e.ctid AND CASE WHEN j.state = 1 THEN
        (j.shard, j.due_at, j.generation) = (e.shard, e.due_at, e.generation) ELSE false END
    RETURNING 1
), begun AS (
    UPDATE tickwheel_job AS j SET state = 1, attempt = j.attempt + 1
    FROM (
        SELECT place.*, found.ctid
        FROM unnest(
            (SELECT %(begun_in)s::integer[]), (SELECT %(begun_dues)s::bigint[]), (SELECT %(begun)s::bigint[])
        ) AS place (shard, due_at, generation) CROSS JOIN LATERAL (
            SELECT f.ctid FROM tickwheel_job AS f
            WHERE f.shard = place.shard AND f.due_at = place.due_at AND f.generation = place.generation OFFSET 0
        ) AS found
        WHERE (SELECT count(*) FROM ended) = cardinality((SELECT %(ended)s::bigint[])) OFFSET 0
    ) AS b
    WHERE j.ctid = b.ctid AND CASE WHEN j.state = 0 THEN
        (j.shard, j.due_at, j.generation) = (b.shard, b.due_at, b.generation) ELSE false END
    RETURNING 1
), listed AS (
    INSERT INTO tickwheel_begun (owner, slot, keys)
    SELECT %(owner)s::text, %(slot)s::integer, n.keys FROM (SELECT %(keys)s::text[] AS keys) AS n
    WHERE cardinality(n.keys) > 0
    ON CONFLICT (owner, slot) DO UPDATE SET keys = excluded.keys
), counted AS (
    INSERT INTO tickwheel_count AS c (slot, pending, running)
    SELECT 32 + pg_backend_pid(), -n.begun, n.begun - n.ended
    FROM (
        SELECT cardinality((SELECT %(begun)s::bigint[])) AS begun, cardinality((SELECT %(ended)s::bigint[])) AS ended
    ) AS n
    ON CONFLICT (slot) DO UPDATE SET pending = c.pending + excluded.pending, running = c.running + excluded.running
)
SELECT (
    CASE WHEN (SELECT count(*) FROM held) = cardinality((SELECT %(shards)s::integer[]))
        AND (SELECT count(*) FROM ended) = cardinality((SELECT %(ended)s::bigint[]))
        AND (SELECT count(*) FROM begun) = cardinality((SELECT %(begun)s::bigint[]))
    THEN '1' ELSE 'a guess of tickwheel was wrong, and it tries again' END
)::integer;
