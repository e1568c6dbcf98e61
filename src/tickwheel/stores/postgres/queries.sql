-- `_queries.py` finds each query by its name. `stores/_sql.py` describes the macros, such as `@columns`.

-- name: place
-- The identity of server, database and table; and whether the transaction is read-only.
SELECT (SELECT system_identifier FROM pg_control_system()), current_database(), to_regclass('tickwheel_job')::oid,
    current_setting('transaction_read_only');

-- name: durability
-- Do commits wait for the disk? Are torn pages repaired? Do commits wait for a standby? Is there a standby?
SELECT current_setting('fsync')::boolean, current_setting('full_page_writes')::boolean,
    current_setting('synchronous_standby_names') <> '', EXISTS (SELECT FROM pg_stat_replication);

-- name: transaction
SELECT pg_current_xact_id()::text;

-- name: transactions_open
SELECT number, pg_xact_status(number::xid8) FROM unnest(%s::text[]) AS number;

-- name: now
-- `floor`, because a cast rounds: with a clock half a millisecond ahead, jobs would fire early.
SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint;

-- name: epochs
-- The rows stay locked until the transaction ends, so that no node takes over a shard while its owner writes. No two
-- shards share an epoch, so an epoch identifies its shard. A failover may lose an epoch, which is then assigned again:
-- the owner's name distinguishes the two leases.
SELECT shard, epoch FROM tickwheel_shard WHERE epoch = ANY(%s) AND owner = %s ORDER BY shard FOR NO KEY UPDATE;

-- name: hold_epochs
-- Locks the shards that the owner is assumed to hold. Fails if it does not hold all of them.
SELECT @guessed FROM (
    SELECT FROM tickwheel_shard AS s
    WHERE (s.shard, s.epoch) IN (SELECT * FROM unnest(%s::integer[], %s::bigint[])) AND owner = %s
    ORDER BY shard FOR NO KEY UPDATE
) AS held;

-- name: jobs_by_key
-- Finds each job by its key. Locks the jobs in order of shard, due time and generation, as claims and acknowledgements
-- do.
SELECT j.* FROM (
    SELECT k.key FROM unnest(%s::text[]) AS k (key) CROSS JOIN LATERAL (
        SELECT shard, due_at, generation FROM tickwheel_job WHERE tickwheel_job.key = k.key OFFSET 0
    ) AS place
    ORDER BY place.shard, place.due_at, place.generation OFFSET 0
) AS k CROSS JOIN LATERAL (
    SELECT @columns, shard, xmin::text
    FROM tickwheel_job WHERE tickwheel_job.key = k.key OFFSET 0 FOR UPDATE
) AS j;

-- name: jobs_read
-- Reads jobs without locks. The last column is the version of the row: `hold_jobs` fails if it has changed.
SELECT j.* FROM unnest(%s::text[]) AS k (key) CROSS JOIN LATERAL (
    SELECT @columns, shard, xmin::text FROM tickwheel_job WHERE tickwheel_job.key = k.key OFFSET 0
) AS j;

-- name: hold_jobs
-- Locks rows as `jobs_by_key` does. Fails if a row has changed since it was read.
SELECT @guessed FROM (
    SELECT FROM (
        SELECT k.key, k.version FROM unnest(%s::text[], %s::text[]) AS k (key, version) CROSS JOIN LATERAL (
            SELECT shard, due_at, generation FROM tickwheel_job WHERE tickwheel_job.key = k.key OFFSET 0
        ) AS place
        ORDER BY place.shard, place.due_at, place.generation OFFSET 0
    ) AS k CROSS JOIN LATERAL (
        SELECT FROM tickwheel_job WHERE tickwheel_job.key = k.key AND xmin = k.version::xid OFFSET 0 FOR UPDATE
    ) AS j
) AS held;

-- name: generations
-- Returns the first number; all numbers, unless they are consecutive; the time; and whether the server is the same as
-- at the last call.
SELECT min(number), CASE WHEN max(number) - min(number) >= count(*) THEN array_agg(number ORDER BY number) END,
    floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint,
    (SELECT timeline = left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) AND table_oid = tableoid
        FROM tickwheel_server)
FROM (SELECT nextval('tickwheel_generation') AS number FROM generate_series(1, %s)) AS drawn;

-- name: raise_generation
SELECT setval('tickwheel_generation', %(floor)s::bigint + %(margin)s)
FROM tickwheel_generation WHERE last_value <= %(floor)s;

-- name: begin_jobs
-- Finds jobs by the index of due times, where jobs that are due together are neighbours. Finding them by key would cost
-- three times as much.
WITH begun AS (
    UPDATE tickwheel_job AS j SET state = 1, attempt = j.attempt + 1
    FROM (
        SELECT place.*, found.ctid
        FROM unnest(%s::integer[], %s::bigint[], %s::bigint[]) AS place (shard, due_at, generation) CROSS JOIN LATERAL (
            SELECT f.ctid FROM tickwheel_job AS f
            WHERE f.shard = place.shard AND f.due_at = place.due_at AND f.generation = place.generation OFFSET 0
        ) AS found OFFSET 0
    ) AS b
    WHERE j.ctid = b.ctid AND CASE WHEN j.state = 0 THEN
        (j.shard, j.due_at, j.generation) = (b.shard, b.due_at, b.generation) ELSE false END
    RETURNING 1
) SELECT @guessed FROM begun;

-- name: end_jobs
WITH ended AS (
    DELETE FROM tickwheel_job AS j
    USING (
        SELECT place.*, found.ctid
        FROM unnest(%s::integer[], %s::bigint[], %s::bigint[]) AS place (shard, due_at, generation) CROSS JOIN LATERAL (
            SELECT f.ctid FROM tickwheel_job AS f
            WHERE f.shard = place.shard AND f.due_at = place.due_at AND f.generation = place.generation OFFSET 0
        ) AS found OFFSET 0
    ) AS e
    WHERE j.ctid = e.ctid AND CASE WHEN j.state = 1 THEN
        (j.shard, j.due_at, j.generation) = (e.shard, e.due_at, e.generation) ELSE false END
    RETURNING 1
) SELECT @guessed FROM ended;

-- name: insert_jobs
WITH inserted AS (
    INSERT INTO tickwheel_job (@columns, shard)
    SELECT * FROM unnest(@values, (SELECT %s::integer[]))
    ON CONFLICT DO NOTHING
    RETURNING 1
) SELECT @guessed FROM inserted;

-- name: update_jobs
-- The caller has locked the jobs. The statement also writes the session's row of counts: see `version`.
WITH counted AS (
    INSERT INTO tickwheel_count AS c (slot) VALUES (32 + pg_backend_pid())
    ON CONFLICT (slot) DO UPDATE SET pending = c.pending
)
UPDATE tickwheel_job AS j SET
    @set(n), shard = n.shard
FROM (
    SELECT new.*, found.ctid FROM unnest(@values, (SELECT %s::integer[])) AS new (@columns, shard)
    CROSS JOIN LATERAL (SELECT f.ctid FROM tickwheel_job AS f WHERE f.key = new.key OFFSET 0) AS found OFFSET 0
) AS n
WHERE j.ctid = n.ctid;

-- name: delete_jobs
DELETE FROM tickwheel_job AS j
USING (
    SELECT found.ctid FROM unnest(%s::text[]) AS gone (key)
    CROSS JOIN LATERAL (SELECT f.ctid FROM tickwheel_job AS f WHERE f.key = gone.key OFFSET 0) AS found OFFSET 0
) AS g
WHERE j.ctid = g.ctid;

-- name: insert_notes
INSERT INTO tickwheel_note (shard, generation, key) SELECT * FROM unnest(%s::integer[], %s::bigint[], %s::text[]);

-- name: add_counts
-- Uses a row that no other transaction has locked, or else the first row.
UPDATE tickwheel_count SET pending = pending + %s, running = running + %s, dead = dead + %s
WHERE slot = coalesce((SELECT slot FROM tickwheel_count WHERE slot BETWEEN 0 AND 31 LIMIT 1 FOR UPDATE SKIP LOCKED), 0);

-- name: add_counts_apart
-- Uses a new row: no other writer waits for it while the caller's transaction is open.
INSERT INTO tickwheel_count (pending, running, dead, slot)
VALUES (%s, %s, %s, -1 - (nextval('tickwheel_generation') %% 2147483647)::integer)
ON CONFLICT (slot) DO UPDATE SET pending = tickwheel_count.pending + excluded.pending,
    running = tickwheel_count.running + excluded.running, dead = tickwheel_count.dead + excluded.dead;

-- name: gather_counts
-- Adds the counts that transactions of callers and sessions left in rows of their own to the shared rows.
WITH gone AS (
    DELETE FROM tickwheel_count WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM tickwheel_count WHERE slot NOT BETWEEN 0 AND 31 LIMIT 10000 FOR UPDATE SKIP LOCKED
    ))
    RETURNING pending, running, dead
)
UPDATE tickwheel_count AS c SET pending = c.pending + n.pending, running = c.running + n.running, dead = c.dead + n.dead
FROM (SELECT sum(pending)::bigint, sum(running)::bigint, sum(dead)::bigint FROM gone) AS n (pending, running, dead)
WHERE n.pending IS NOT NULL
    AND slot = coalesce((SELECT slot FROM tickwheel_count WHERE slot BETWEEN 0 AND 31 LIMIT 1 FOR UPDATE SKIP LOCKED), 0);

-- name: list_begun
INSERT INTO tickwheel_begun (owner, slot, keys) VALUES (%s, %s, %s)
ON CONFLICT (owner, slot) DO UPDATE SET keys = excluded.keys;

-- name: still_running
-- The running jobs in an owner's lists, even if their shards now have another owner.
SELECT b.slot, j.generation
FROM tickwheel_begun AS b CROSS JOIN LATERAL unnest(b.keys) AS k (key) CROSS JOIN LATERAL (
    SELECT state, generation FROM tickwheel_job WHERE tickwheel_job.key = k.key OFFSET 0
) AS j
WHERE b.owner = %s AND j.state = 1;

-- name: forget_begun
-- Deletes each list of an owner without a lease if none of the listed jobs is running.
DELETE FROM tickwheel_begun WHERE ctid = ANY (ARRAY(
    SELECT b.ctid FROM tickwheel_begun AS b
    WHERE b.owner <> ALL (ARRAY(SELECT owner FROM tickwheel_shard WHERE owner IS NOT NULL)) AND NOT EXISTS (
        SELECT FROM unnest(b.keys) AS k (key) CROSS JOIN LATERAL (
            SELECT state FROM tickwheel_job WHERE tickwheel_job.key = k.key OFFSET 0
        ) AS j WHERE j.state = 1
    )
));

-- name: job_of_key
SELECT @columns
FROM tickwheel_job WHERE key = %s;

-- name: version
-- Every transaction that changes jobs writes a row of counts, so equal versions prove that no job has changed. Another
-- server, or the same one after a restart, has another start time.
SELECT pg_postmaster_start_time()::text,
    (SELECT string_agg(slot || ':' || xmin, ' ' ORDER BY slot) FROM tickwheel_count),
    (SELECT string_agg(scope || ':' || xmin, ' ' ORDER BY scope) FROM tickwheel_scope);

-- name: count
SELECT coalesce(sum(pending), 0)::bigint, coalesce(sum(running), 0)::bigint, coalesce(sum(dead), 0)::bigint
FROM tickwheel_count;

-- name: jobs_due
SELECT @columns
FROM tickwheel_job
WHERE shard = %s AND due_at < %s AND (due_at, generation) > (%s, %s) AND state = 0
ORDER BY due_at, generation LIMIT %s;

-- name: jobs_upcoming
SELECT @columns
FROM (
    SELECT s.shard AS number FROM tickwheel_shard AS s
) AS shards CROSS JOIN LATERAL (
    SELECT * FROM tickwheel_job
    WHERE shard = number AND due_at >= %(since)s AND due_at < %(until)s AND state = 0
    ORDER BY due_at, generation LIMIT %(limit)s
) AS job
ORDER BY due_at, generation LIMIT %(limit)s;

-- name: latest_dead
SELECT @columns(payload = ''::bytea)
FROM (
    SELECT -1 - s.shard AS number FROM tickwheel_shard AS s
) AS shards CROSS JOIN LATERAL (
    SELECT * FROM tickwheel_job WHERE shard = number
    ORDER BY due_at DESC, generation DESC LIMIT %(limit)s
) AS job
ORDER BY due_at DESC, generation DESC LIMIT %(limit)s;

-- name: jobs_first
-- The first pending job of each shard, and the time. In a shard with a known floor (see `_floors.py`), the search
-- starts there.
SELECT @columns, number, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
FROM (
    SELECT s.shard AS number, greatest(f.floor, %(since)s::bigint) AS since
    FROM tickwheel_shard AS s LEFT JOIN unnest(%(shards)s::integer[], %(floors)s::bigint[]) AS f (shard, floor)
        ON f.shard = s.shard
) AS shards LEFT JOIN LATERAL (
    SELECT * FROM tickwheel_job
    WHERE shard = number AND due_at >= since AND due_at < %(until)s AND state = 0
    ORDER BY due_at, generation LIMIT 1
) AS job ON true;

-- name: jobs_overdue
SELECT @columns, number
FROM unnest(%(shards)s::integer[], %(floors)s::bigint[]) AS s (number, floor) CROSS JOIN LATERAL (
    SELECT * FROM tickwheel_job
    WHERE shard = number AND due_at >= floor AND due_at < %(until)s AND state = 0
    ORDER BY due_at, generation LIMIT %(limit)s
) AS job;

-- name: count_due
SELECT (due_at - %(since)s) / %(step)s AS step, count(*)
FROM tickwheel_shard AS s CROSS JOIN LATERAL (
    SELECT due_at FROM tickwheel_job AS j
    WHERE j.shard = s.shard AND j.due_at >= %(since)s AND j.due_at < %(until)s AND j.state = 0
    ORDER BY j.shard, j.due_at, j.generation OFFSET 0
) AS job
GROUP BY step;

-- name: shards
-- Does not count tails, whose numbers start at a million.
SELECT count(*) FROM tickwheel_shard WHERE shard < 1000000;

-- name: owners
SELECT s.shard, CASE WHEN s.lease_until >= t.now THEN s.owner END, s.epoch,
    CASE WHEN s.owner IS NOT NULL AND s.lease_until >= t.now THEN s.lease_until END
FROM tickwheel_shard AS s, (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now) AS t
ORDER BY s.shard;

-- name: make_shards
INSERT INTO tickwheel_shard (shard) SELECT generate_series(%s, %s - 1);

-- name: cut_leases
-- A lease that ends later than one lease length from now was written before the clock was set back. It is shortened to
-- one length from now; a live owner renews it before that. A locked row is skipped, because its owner is renewing it.
-- The clock is read for each row, after its last write.
WITH far AS (
    SELECT shard FROM tickwheel_shard
    WHERE lease_ms > 0 AND lease_until > floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint + lease_ms
    ORDER BY shard FOR NO KEY UPDATE SKIP LOCKED
), far_nodes AS (
    SELECT owner FROM tickwheel_node
    WHERE lease_ms > 0 AND seen_until > floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint + lease_ms
    FOR NO KEY UPDATE SKIP LOCKED
), cut AS (
    UPDATE tickwheel_shard AS s SET lease_until = floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint + lease_ms
    FROM far WHERE s.shard = far.shard
), cut_nodes AS (
    UPDATE tickwheel_node AS n SET seen_until = floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint + lease_ms,
        heard_at = least(heard_at, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)
    FROM far_nodes WHERE n.owner = far_nodes.owner
)
SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint;

-- name: end_stuck
-- Ends sessions of this user whose client stopped in the middle of a pipeline, longer ago than any call takes. The
-- server does not regard such a session as idle in a transaction: it would wait forever for the rest of the pipeline,
-- and keep all locks.
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND usename = current_user AND state = 'active' AND wait_event = 'ClientRead'
    AND query LIKE '%%tickwheel\_%%'
    AND query_start < clock_timestamp() - %s * interval '1 millisecond';

-- name: see_node
INSERT INTO tickwheel_node (owner, seen_until, lease_ms)
VALUES (%(owner)s, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint + %(lease_ms)s, %(lease_ms)s)
ON CONFLICT (owner) DO UPDATE SET seen_until = excluded.seen_until,
    guard = CASE WHEN %(is_guarded)s THEN tickwheel_node.guard END
RETURNING seen_until;

-- name: guard_node
-- The lock shows other nodes that the owner is alive. It is held until this session ends.
WITH guard AS MATERIALIZED (SELECT pg_try_advisory_lock_shared(hashtextextended(%(owner)s, 0)) AS is_locked)
UPDATE tickwheel_node SET guard = pg_postmaster_start_time()::text FROM guard
WHERE guard.is_locked AND owner = %(owner)s;

-- name: expire_deserted
-- Expires the leases of owners whose guard session has ended: see `guard_node`. A restart of the server also ends the
-- sessions of live owners, so a guard from before the restart does not count.
WITH deserted AS MATERIALIZED (
    SELECT owner FROM (
        SELECT owner FROM tickwheel_node
        WHERE guard = pg_postmaster_start_time()::text AND owner <> %(owner)s ORDER BY owner OFFSET 0
    ) AS guarded
    WHERE pg_try_advisory_xact_lock(hashtextextended(owner, 0))
), gone AS (
    UPDATE tickwheel_node AS n SET seen_until = least(seen_until, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - 1)
    FROM deserted WHERE n.owner = deserted.owner
)
UPDATE tickwheel_shard AS s SET lease_until = 0
WHERE s.shard = ANY (ARRAY(
    SELECT t.shard FROM tickwheel_shard AS t
    WHERE t.owner = ANY (ARRAY(SELECT owner FROM deserted)) ORDER BY t.shard FOR NO KEY UPDATE SKIP LOCKED
));

-- name: report_figures
UPDATE tickwheel_node SET figures = %s, heard_at = floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint WHERE owner = %s;

-- name: nodes
SELECT owner, seen_until, heard_at, figures FROM tickwheel_node
WHERE seen_until >= floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - %s ORDER BY owner COLLATE "C";

-- name: forget_nodes
DELETE FROM tickwheel_node
WHERE owner = %s OR seen_until < floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - %s;

-- name: fair_share
-- If the shards do not divide evenly, the first owners by name get one shard more than the others.
SELECT (shards.number / nodes.number + CASE WHEN nodes.before < shards.number %% nodes.number THEN 1 ELSE 0 END)::integer
FROM (
    SELECT count(*) AS number FROM tickwheel_shard WHERE shard < 1000000
) AS shards, (
    SELECT greatest(count(*), 1) AS number, count(*) FILTER (WHERE owner < %(owner)s) AS before
    FROM tickwheel_node WHERE seen_until >= floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
) AS nodes;

-- name: seen_shards
SELECT shard FROM tickwheel_shard WHERE owner = %s ORDER BY shard;

-- name: held_shards
-- Includes an expired lease if no other node has taken the shard. All statements lock shards in this order.
SELECT shard FROM tickwheel_shard WHERE owner = %s ORDER BY shard FOR NO KEY UPDATE;

-- name: rescue_jobs
-- columns: those that the history keeps of an attempt
-- Makes running jobs of the shards that were just taken over pending again. Finds them by the lists of the former
-- owners, or by all lists if a former owner has released its shard. A job that was paused while it ran moves to the
-- paused jobs. A locked job is skipped: it is returned, and added to a list of the caller.
WITH taken AS MATERIALIZED (
    SELECT shard AS number, former FROM tickwheel_shard WHERE owner = %(owner)s AND former IS NOT NULL
), begun AS MATERIALIZED (
    SELECT DISTINCT k.key FROM tickwheel_begun AS b CROSS JOIN LATERAL unnest(b.keys) AS k (key)
    WHERE b.owner = ANY (ARRAY(SELECT former FROM taken)) OR '' = ANY (ARRAY(SELECT former FROM taken))
), tried AS MATERIALIZED (
    SELECT found.*, free.place
    FROM begun CROSS JOIN LATERAL (
        SELECT j.shard AS number, j.ctid AS row, j.key, j.generation, j.attempt, j.state FROM tickwheel_job AS j
        WHERE j.key = begun.key OFFSET 0
    ) AS found LEFT JOIN LATERAL (
        SELECT j.ctid AS place FROM tickwheel_job AS j WHERE j.ctid = found.row AND j.state = 1 FOR UPDATE SKIP LOCKED
    ) AS free ON true
    WHERE found.state = 1 AND found.number = ANY (ARRAY(SELECT number FROM taken))
), rescued AS (
    UPDATE tickwheel_job AS j SET state = CASE WHEN j.pause IS NULL THEN 0 ELSE 6 END,
        shard = CASE WHEN j.pause IS NULL THEN j.shard ELSE 2147483646 END
    FROM (SELECT number, place FROM tried WHERE place IS NOT NULL OFFSET 0) AS free WHERE j.ctid = free.place
    RETURNING free.number, j.key, j.generation, j.attempt, j.target, j.handler, j.due_at, j.trace
), noted AS (
    INSERT INTO tickwheel_history (at, key, generation, attempt, outcome, by, target, handler, due_at, trace)
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, key, generation, attempt, 'cut_off',
        (SELECT former FROM taken WHERE taken.number = rescued.number), target, handler, due_at, trace
    FROM rescued
), counted AS (
    UPDATE tickwheel_count SET pending = pending + number, running = running - number
    FROM (SELECT count(*) AS number FROM rescued) AS n
    WHERE number > 0
        AND slot = coalesce((SELECT slot FROM tickwheel_count WHERE slot BETWEEN 0 AND 31 LIMIT 1 FOR UPDATE SKIP LOCKED), 0)
), listed AS (
    INSERT INTO tickwheel_begun (owner, slot, keys)
    SELECT %(owner)s, %(slot)s::integer, array_agg(key) FROM tried WHERE place IS NULL HAVING count(*) > 0
    ON CONFLICT (owner, slot) DO UPDATE SET keys = excluded.keys
), free AS (
    UPDATE tickwheel_shard AS s SET former = NULL FROM taken WHERE s.shard = taken.number
)
SELECT number, count(*), NULL, NULL, NULL FROM rescued GROUP BY number
UNION ALL SELECT number, 0, key, generation, attempt FROM tried WHERE place IS NULL;

-- name: rescue_again
-- columns: those that the history keeps of an attempt
-- Makes jobs pending that were locked when the caller took over their shards, and adds a note of each job for the
-- caller. Returns the jobs that are still locked.
WITH tried AS MATERIALIZED (
    SELECT old.*, there.row, free.place
    FROM unnest(%(shards)s::integer[], %(keys)s::text[], %(generations)s::bigint[], %(attempts)s::integer[])
        AS old (number, key, generation, attempt)
    CROSS JOIN LATERAL (
        SELECT j.ctid AS row, j.shard, j.state, j.generation, j.attempt FROM tickwheel_job AS j
        WHERE j.key = old.key OFFSET 0
    ) AS there LEFT JOIN LATERAL (
        SELECT j.ctid AS place FROM tickwheel_job AS j WHERE j.ctid = there.row AND j.state = 1 FOR UPDATE SKIP LOCKED
    ) AS free ON true
    WHERE there.shard = old.number AND there.state = 1 AND there.generation = old.generation
        AND there.attempt = old.attempt
), rescued AS (
    UPDATE tickwheel_job AS j SET state = CASE WHEN j.pause IS NULL THEN 0 ELSE 6 END,
        shard = CASE WHEN j.pause IS NULL THEN j.shard ELSE 2147483646 END
    FROM (SELECT number, place FROM tried WHERE place IS NOT NULL OFFSET 0) AS free WHERE j.ctid = free.place
    RETURNING free.number, j.key, j.generation, j.attempt, j.target, j.handler, j.due_at, j.trace
), noted AS (
    INSERT INTO tickwheel_history (at, key, generation, attempt, outcome, by, target, handler, due_at, trace)
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, key, generation, attempt, 'cut_off', '', target,
        handler, due_at, trace
    FROM rescued
), announced AS (
    INSERT INTO tickwheel_note (shard, generation, key) SELECT number, generation, key FROM rescued
), counted AS (
    UPDATE tickwheel_count SET pending = pending + number, running = running - number
    FROM (SELECT count(*) AS number FROM rescued) AS n
    WHERE number > 0
        AND slot = coalesce((SELECT slot FROM tickwheel_count WHERE slot BETWEEN 0 AND 31 LIMIT 1 FOR UPDATE SKIP LOCKED), 0)
)
SELECT number, count(*), NULL, NULL, NULL FROM rescued GROUP BY number
UNION ALL SELECT number, 0, key, generation, attempt FROM tried WHERE place IS NULL;

-- name: take_shards
-- Takes free shards, up to the number that the caller lacks, and all free tails.
UPDATE tickwheel_shard AS s
SET former = coalesce(s.owner, ''), owner = %(owner)s, epoch = nextval('tickwheel_epoch'), lease_ms = %(lease_ms)s,
    lease_until = %(until)s
WHERE shard = ANY (ARRAY(
    SELECT shard FROM tickwheel_shard
    WHERE (owner IS NULL OR lease_until < floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AND shard < 1000000
    ORDER BY shard LIMIT %(missing)s FOR NO KEY UPDATE SKIP LOCKED
) || ARRAY(
    SELECT shard FROM tickwheel_shard
    WHERE (owner IS NULL OR lease_until < floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AND shard >= 1000000
    ORDER BY shard FOR NO KEY UPDATE SKIP LOCKED
))
RETURNING shard, epoch, lease_until;

-- name: delete_notes
-- Deletes notes of the shards that are being taken over. Skips notes that a former owner is deleting at this moment,
-- because an extra note is harmless. The limit applies to all shards together: clients may have left any number of
-- notes, and the takeover must end before its lease does.
DELETE FROM tickwheel_note AS n
USING (
    SELECT note.ctid FROM (
        SELECT shard FROM tickwheel_shard WHERE owner = %s AND former IS NOT NULL OFFSET 0
    ) AS s CROSS JOIN LATERAL (
        SELECT f.ctid FROM tickwheel_note AS f WHERE f.shard = s.shard
        ORDER BY f.shard, f.generation LIMIT 10000 FOR UPDATE SKIP LOCKED
    ) AS note LIMIT 10000
) AS gone
WHERE n.ctid = gone.ctid;

-- name: renew_shards
UPDATE tickwheel_shard SET lease_until = %s
WHERE owner = %s
RETURNING shard, epoch, lease_until;

-- name: leave_tails
-- Moves the running jobs of shards that are handed over into tails, which keep the owner and the epoch. Finds the jobs
-- by the owner's lists, as `rescue_jobs` does.
WITH running AS MATERIALIZED (
    SELECT found.* FROM (
        SELECT DISTINCT k.key FROM tickwheel_begun AS b CROSS JOIN LATERAL unnest(b.keys) AS k (key)
        WHERE b.owner = %(owner)s
    ) AS begun CROSS JOIN LATERAL (
        SELECT j.ctid AS place, j.key, j.generation, j.shard, j.state FROM tickwheel_job AS j
        WHERE j.key = begun.key OFFSET 0
    ) AS found
    WHERE found.state = 1 AND found.shard = ANY (%(shards)s::integer[])
), busy AS MATERIALIZED (
    SELECT shard, owner, epoch, lease_until, lease_ms, (1000000 + epoch %% 1000000000)::integer AS tail
    FROM tickwheel_shard WHERE shard = ANY (ARRAY(SELECT shard FROM running)) AND owner = %(owner)s
), tails AS (
    INSERT INTO tickwheel_shard (shard, owner, epoch, lease_until, lease_ms)
    SELECT tail, owner, epoch, lease_until, lease_ms FROM busy
), emptied AS (
    UPDATE tickwheel_shard AS s SET owner = NULL, lease_until = 0
    WHERE s.shard = ANY (ARRAY(SELECT shard FROM busy))
)
UPDATE tickwheel_job AS j SET shard = found.tail
FROM (
    SELECT running.place, running.key, running.generation, busy.tail
    FROM running JOIN busy ON busy.shard = running.shard OFFSET 0
) AS found
WHERE j.ctid = found.place AND CASE WHEN j.state = 1 THEN (j.key, j.generation) = (found.key, found.generation)
    ELSE false END;

-- name: end_tails
-- Deletes empty tails. ORDER BY makes the server use the index, whatever its statistics of the table say.
DELETE FROM tickwheel_shard AS s
WHERE s.shard >= 1000000 AND s.owner = %s AND (
    SELECT j.key FROM tickwheel_job AS j WHERE j.shard = s.shard ORDER BY j.shard, j.due_at, j.generation LIMIT 1
) IS NULL;

-- name: give_up_shards
UPDATE tickwheel_shard SET owner = NULL, lease_until = 0 WHERE owner = %s AND shard = ANY(%s);

-- name: give_up_all
UPDATE tickwheel_shard SET owner = NULL, lease_until = 0 WHERE owner = %s;

-- name: end_of_reach
SELECT count(*), max(key) FROM (
    SELECT key FROM tickwheel_job
    WHERE key >= %(first)s AND (%(end)s::text IS NULL OR key < %(end)s) AND (NOT %(is_dead)s OR shard < 0)
        AND (NOT %(recurring)s OR recurrence IS NOT NULL)
        AND (NOT %(paused)s OR shard = 2147483646)
        AND (%(manifest)s::text IS NULL OR manifest = %(manifest)s)
    ORDER BY key LIMIT %(reach)s
) AS k;

-- name: page
-- The inner LIMIT makes the server use the index by key, whatever its statistics of the filtered columns say.
SELECT @columns
FROM (
    SELECT * FROM tickwheel_job
    WHERE key >= %(first)s AND (%(end)s::text IS NULL OR key < %(end)s) AND (NOT %(is_dead)s OR shard < 0)
        AND (NOT %(recurring)s OR recurrence IS NOT NULL)
        AND (NOT %(paused)s OR shard = 2147483646)
        AND (%(manifest)s::text IS NULL OR manifest = %(manifest)s)
    ORDER BY key LIMIT %(reach)s
) AS j
WHERE (%(last)s::text IS NULL OR key <= %(last)s)
    AND (%(state)s::integer IS NULL OR state %% 3 = %(state)s)
    AND due_at >= %(due_from)s AND due_at < %(due_until)s
    AND (%(handler)s::text IS NULL OR handler = %(handler)s)
    AND (%(target)s::text IS NULL OR target = %(target)s)
    AND (%(contains)s::text IS NULL OR strpos(key, %(contains)s) > 0)
    AND (%(error)s::text IS NULL OR strpos(error COLLATE "C", %(error)s) > 0)
    AND (%(payload)s::bytea IS NULL OR position(%(payload)s::bytea IN payload) > 0)
ORDER BY key LIMIT %(limit)s;

-- name: manifests
SELECT name, version, digest, revision, rules FROM tickwheel_manifest
WHERE version > 0 AND (%(name)s::text IS NULL OR name = %(name)s)
ORDER BY name;

-- name: make_manifests
-- Creates missing rows, because only an existing row can be locked.
INSERT INTO tickwheel_manifest (name) SELECT * FROM unnest(%s::text[]) ON CONFLICT DO NOTHING;

-- name: lock_manifests
SELECT name, version, digest, revision, rules FROM tickwheel_manifest WHERE name = ANY(%s::text[]) ORDER BY name FOR UPDATE;

-- name: write_manifest
UPDATE tickwheel_manifest
SET version = %(version)s, digest = %(digest)s, revision = %(revision)s, rules = %(rules)s WHERE name = %(name)s;

-- name: answers
SELECT token, part, asked, until, generation, data FROM tickwheel_answer WHERE token = ANY(%s::text[]);

-- name: prune_answers
DELETE FROM tickwheel_answer WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM tickwheel_answer WHERE until <= %s::bigint ORDER BY until LIMIT %s::bigint FOR UPDATE SKIP LOCKED
));

-- name: delete_answers
DELETE FROM tickwheel_answer AS a USING unnest(%s::text[], %s::text[]) AS k (token, part)
WHERE a.token = k.token AND a.part = k.part;

-- name: write_answers
-- Fails if another transaction has written an answer in the meantime. Replaces expired rows, and claims of a token,
-- which have no data yet.
WITH written AS (
    INSERT INTO tickwheel_answer AS a (token, part, asked, until, generation, data)
    SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::bytea[])
    ON CONFLICT (token, part) DO UPDATE SET
        asked = excluded.asked, until = excluded.until, generation = excluded.generation, data = excluded.data
    WHERE a.until <= %s::bigint OR (a.data = '' AND excluded.data <> '')
    RETURNING 1
) SELECT @guessed FROM written;

-- name: last_generation
SELECT last_value - (NOT is_called)::integer FROM tickwheel_generation;

-- name: count_paused
SELECT count(*) FROM (SELECT FROM tickwheel_job WHERE shard = 2147483646 LIMIT 10000) AS paused;

-- name: has_aside
SELECT EXISTS (SELECT 1 FROM tickwheel_job WHERE shard = 2147483647);

-- name: hold_lease
SELECT FROM tickwheel_shard WHERE shard = %s AND epoch = %s AND owner = %s FOR NO KEY UPDATE;

-- name: take_up
-- Moves unroutable jobs that the caller can run into one of its shards, if it still holds the shard's lease; the caller
-- has locked the lease's row. Finds the jobs of each name by the index. Skips locked jobs, which another node is moving
-- or writing.
WITH found AS (
    SELECT free.place FROM unnest(%(targets)s::text[], %(handlers)s::text[]) AS skill (target, handler)
    CROSS JOIN LATERAL (
        SELECT j.ctid AS place FROM tickwheel_job AS j
        WHERE j.shard = 2147483647 AND j.target = skill.target AND (skill.handler IS NULL OR j.handler = skill.handler)
        AND EXISTS (
            SELECT FROM tickwheel_shard WHERE shard = %(shard)s AND epoch = %(epoch)s AND owner = %(owner)s
        )
        AND NOT EXISTS (SELECT FROM unnest(%(unreadable)s::text[]) AS part WHERE strpos(recurrence, part) > 0)
        AND generation <> ALL (%(unfit)s::bigint[])
        ORDER BY due_at, generation LIMIT %(limit)s FOR UPDATE SKIP LOCKED
    ) AS free
    LIMIT %(limit)s
), counted AS (
    INSERT INTO tickwheel_count AS c (slot) SELECT 32 + pg_backend_pid() WHERE EXISTS (SELECT FROM found)
    ON CONFLICT (slot) DO UPDATE SET pending = c.pending
)
UPDATE tickwheel_job AS j SET shard = %(shard)s, state = 0 FROM (SELECT place FROM found OFFSET 0) AS found
WHERE j.ctid = found.place
RETURNING @columns(j);
