-- `_queries.py` finds each query by its name. The columns of a job are always in the order of the fields of `Job`.
--
-- ANALYZE leaves statistics that are soon wrong. If a table was small at that time, SQLite might, for a single look-up,
-- read the whole table into a Bloom filter, or all keys of a shelf. In such queries `likelihood` claims that few rows
-- meet a condition. The condition itself is always true.

-- name: read_ledger
SELECT generation, pending, running, dead, floor, epoch, owner FROM tickwheel_ledger;

-- name: begin_batch
-- The ledger; whether there are runs of keys; whether the given key is on a shelf that is not a run (see
-- tickwheel_shelf). There is one EXISTS for each shelf, because SQLite would write a list of shelves to a temporary
-- table.
SELECT generation, pending, running, dead, floor, EXISTS(SELECT 1 FROM tickwheel_shelf WHERE shelf > 1),
    EXISTS(SELECT 1 FROM tickwheel_key WHERE shelf = 1 AND key = :key)
    OR EXISTS(SELECT 1 FROM tickwheel_key WHERE shelf = 0 AND key = :key)
    OR EXISTS(SELECT 1 FROM tickwheel_key WHERE shelf = -1 AND key = :key)
    OR EXISTS(SELECT 1 FROM tickwheel_key WHERE shelf = -2 AND key = :key)
    OR EXISTS(SELECT 1 FROM tickwheel_key WHERE shelf = -3 AND key = :key), epoch, owner
FROM tickwheel_ledger;

-- name: lock_ledger
UPDATE tickwheel_ledger SET generation = generation;

-- name: write_ledger
UPDATE tickwheel_ledger SET generation = ?, pending = ?, running = ?, dead = ?, floor = ?;

-- name: size
SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size();

-- name: take_over
-- Counts all running jobs as pending, after the caller has made them pending. The lowest floor makes look-ups start at
-- the first job.
UPDATE tickwheel_ledger SET owner = ?, epoch = epoch + 1, pending = pending + running, running = 0,
    floor = -9223372036854775808;

-- name: hand_over
-- Without an owner, all claims and acknowledgements are refused.
UPDATE tickwheel_ledger SET owner = NULL;

-- name: begin_job
UPDATE tickwheel_job SET state = 1, attempt = attempt + 1
WHERE shard = 0 AND due_at = ? AND generation = ? AND state = 0;

-- name: end_job
DELETE FROM tickwheel_job WHERE shard = 0 AND due_at = ? AND generation = ? AND state = 1;

-- name: begin_jobs_between
UPDATE tickwheel_job SET state = 1, attempt = attempt + 1
WHERE shard = 0 AND due_at = ? AND generation BETWEEN ? AND ? AND state = 0;

-- name: end_jobs_between
DELETE FROM tickwheel_job WHERE shard = 0 AND due_at = ? AND generation BETWEEN ? AND ? AND state = 1;

-- name: insert_job
INSERT INTO tickwheel_job (shard, @columns, instant) VALUES (?, @values, ?);

-- name: insert_plain_job
-- columns: a plain job has the defaults in all other columns (see `columns.PLAIN`)
INSERT INTO tickwheel_job (shard, state, attempt, due_at, generation, key, payload, target, handler, first_set_at)
VALUES (0, 0, 0, ?, ?, ?, ?, ?, ?, ?);

-- name: insert_begun_job
-- columns: those of a plain job; its first attempt is counted as claimed
INSERT INTO tickwheel_job (shard, state, attempt, due_at, generation, key, payload, target, handler, first_set_at)
VALUES (0, 1, 1, ?, ?, ?, ?, ?, ?, ?);

-- name: update_job
-- columns: those that can change while the row stays where it is; any other change writes a new row
UPDATE tickwheel_job SET state = ?, attempt = ?, error = ?, raised_in = ? WHERE shard = ? AND due_at = ? AND generation = ?;

-- name: delete_job
DELETE FROM tickwheel_job WHERE shard = ? AND due_at = ? AND generation = ?;

-- name: insert_key
INSERT INTO tickwheel_key (shelf, key, due_at, generation) VALUES (?, ?, ?, ?);

-- name: put_key
-- Writes a key to shelf 1. Updates its row there, or inserts one if the key was moved to a run.
INSERT INTO tickwheel_key (shelf, key, due_at, generation) VALUES (?, ?, ?, ?)
ON CONFLICT (shelf, key) DO UPDATE SET due_at = excluded.due_at, generation = excluded.generation;

-- name: update_key
UPDATE tickwheel_key SET shelf = ?, due_at = ?, generation = ? WHERE shelf = ? AND key = ?;

-- name: delete_keys
DELETE FROM tickwheel_key WHERE shelf = ? AND key IN (:keys);

-- name: insert_note
INSERT INTO tickwheel_note (generation, due_at, resumed) VALUES (?, ?, ?);

-- name: delete_notes
DELETE FROM tickwheel_note WHERE generation <= ?;

-- name: job_of_key
-- The job is on level 0, or in its slot of the far level. Its due time must equal the key's due time, because a job
-- whose due time changes may keep its generation.
SELECT @columns(j, due_at = k.due_at)
FROM tickwheel_shelf AS s CROSS JOIN tickwheel_key AS k ON k.shelf = s.shelf AND k.key = ?
    CROSS JOIN tickwheel_level AS l CROSS JOIN tickwheel_live AS j
    ON j.shard = min(k.shelf, l.shard) AND j.due_at = k.due_at - k.due_at % l.width AND j.generation = k.generation
    AND j.key = k.key AND coalesce(j.instant, j.due_at) = k.due_at
WHERE likelihood(s.size >= 0, 0.0000001) AND likelihood(l.width > 0, 0.0000001);

-- name: jobs_by_key
SELECT @columns(j, due_at = k.due_at), j.shard
FROM (VALUES :rows) AS wanted CROSS JOIN tickwheel_key AS k ON k.key = wanted.column1
    CROSS JOIN tickwheel_level AS l CROSS JOIN tickwheel_live AS j
    ON j.shard = min(k.shelf, l.shard) AND j.due_at = k.due_at - k.due_at % l.width AND j.generation = k.generation
    AND j.key = k.key AND coalesce(j.instant, j.due_at) = k.due_at
WHERE k.shelf IN (:shelves) AND likelihood(l.width > 0, 0.0000001)
    AND likelihood(wanted.column1 >= '', 0.0000001) AND likelihood(wanted.column1 <> x'', 0.0000001);

-- name: exact_shelves
SELECT column1 FROM (VALUES (-3), (-2), (-1), (0), (1))
WHERE EXISTS (SELECT 1 FROM tickwheel_key WHERE shelf = column1);

-- name: jobs_due
-- Starts after the given due time and generation, or at the ledger's floor if that is later.
SELECT @columns
FROM tickwheel_job
WHERE shard = ? AND due_at < ? AND state = 0 AND (due_at, generation) > (
    max(?, (SELECT floor FROM tickwheel_ledger)), CASE WHEN ? < (SELECT floor FROM tickwheel_ledger) THEN -1 ELSE ? END
)
ORDER BY due_at, generation LIMIT ?;

-- name: end_of_scan
-- The due time and generation of the last job that a scan reads: the job at the given OFFSET. There is no row if there
-- are fewer jobs.
SELECT due_at, generation FROM tickwheel_job
WHERE shard = 0 AND due_at < ? AND state = 0 AND (due_at, generation) > (
    max(?, (SELECT floor FROM tickwheel_ledger)), CASE WHEN ? < (SELECT floor FROM tickwheel_ledger) THEN -1 ELSE ? END
)
ORDER BY due_at, generation LIMIT 1 OFFSET ?;

-- name: jobs_in_lanes
-- Reads jobs up to a given due time and generation. Returns those in the given lanes, or those in all other lanes. The
-- lane of a URL ends before the URL's path: see `lane_of`. Handlers are compared by name, because building the lane's
-- text for each of a million jobs would cost more than reading them.
SELECT @columns
FROM tickwheel_job
WHERE shard = 0 AND state = 0 AND (due_at, generation) > (
    max(:after, (SELECT floor FROM tickwheel_ledger)),
    CASE WHEN :after < (SELECT floor FROM tickwheel_ledger) THEN -1 ELSE :last END
) AND (due_at, generation) <= (:end, :end_last) AND CASE WHEN target = 'handler' THEN
    handler IN (SELECT substr(value, 9) FROM json_each(:names) WHERE substr(value, 1, 8) = 'handler:') OR (
        'handler' IN (SELECT value FROM json_each(:targets))
        AND handler NOT IN (SELECT substr(value, 9) FROM json_each(:others) WHERE substr(value, 1, 8) = 'handler:')
    )
ELSE
    (target || ':' || CASE WHEN target = 'pull' THEN handler
        WHEN NOT instr(handler, '://') THEN ''
        ELSE substr(handler, 1, instr(handler, '://') + 1 + instr(
            replace(replace(substr(handler, instr(handler, '://') + 3), char(63), '/'), '#', '/') || '/', '/'
        )) END) IN (SELECT value FROM json_each(:names)) OR (
        target IN (SELECT value FROM json_each(:targets))
        AND (target || ':' || CASE WHEN target = 'pull' THEN handler
        WHEN NOT instr(handler, '://') THEN ''
        ELSE substr(handler, 1, instr(handler, '://') + 1 + instr(
            replace(replace(substr(handler, instr(handler, '://') + 3), char(63), '/'), '#', '/') || '/', '/'
        )) END) NOT IN (SELECT value FROM json_each(:others))
    )
END = :inside
ORDER BY due_at, generation LIMIT :limit;

-- name: front_from
-- The new floor: the due time of the first pending job among the next 2,000 jobs, or of the last of these jobs if none
-- is pending.
SELECT due_at FROM (
    SELECT due_at, state FROM tickwheel_job WHERE shard = 0 AND due_at >= ? ORDER BY due_at, generation LIMIT 2000
) WHERE state = 0
UNION ALL
SELECT max(due_at) FROM (
    SELECT due_at FROM tickwheel_job WHERE shard = 0 AND due_at >= ? ORDER BY due_at, generation LIMIT 2000
)
LIMIT 1;

-- name: jobs_noted
SELECT @columns(j, due_at = n.due_at)
FROM tickwheel_note AS n CROSS JOIN tickwheel_level AS l CROSS JOIN tickwheel_live AS j
    ON j.shard = l.shard AND j.due_at = n.due_at - n.due_at % l.width AND j.generation = coalesce(n.resumed, n.generation)
WHERE likelihood(n.generation > ?, 0.0000001) AND n.due_at < ? AND state = 0
    AND coalesce(instant, j.due_at) = n.due_at AND likelihood(l.width > 0, 0.0000001);

-- name: count_due
SELECT (instant - :since) / :step_ms AS step, count(*) FROM (
    SELECT due_at AS instant FROM tickwheel_job WHERE shard = 0 AND due_at >= :since AND due_at < :until AND state = 0
    UNION ALL
    SELECT instant FROM tickwheel_live
    WHERE shard = -4 AND due_at > :since - (SELECT width FROM tickwheel_level WHERE shard = -4) AND due_at < :until
        AND instant >= :since AND instant < :until
) GROUP BY step;

-- name: running_jobs
-- columns: those that a rescue needs
SELECT due_at, generation, key, pause IS NOT NULL FROM tickwheel_job WHERE shard = 0 AND state = 1 ORDER BY due_at, generation LIMIT ?;

-- name: rescue_job
UPDATE tickwheel_job SET state = 0 WHERE shard = 0 AND due_at = ? AND generation = ?;

-- name: pause_job
-- Moves a job that was paused while it ran to the paused jobs.
UPDATE tickwheel_job SET state = 6, shard = -3 WHERE shard = 0 AND due_at = ? AND generation = ?;

-- name: take_key
DELETE FROM tickwheel_key WHERE shelf IN (0, 1) AND key = ?;

-- name: pause_key
INSERT INTO tickwheel_key (shelf, key, due_at, generation)
SELECT -3, key, due_at, generation FROM tickwheel_job WHERE shard = -3 AND due_at = ? AND generation = ?;

-- name: delete_all_notes
DELETE FROM tickwheel_note;

-- name: forget_withdrawal_requests
DELETE FROM tickwheel_question WHERE asked_at < ?;

-- name: request_withdrawal
INSERT INTO tickwheel_question (generation, due_at, attempt, key, asked_at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET asked_at = excluded.asked_at;

-- name: withdrawal_requests
SELECT key, generation, due_at, attempt, asked_at FROM tickwheel_question WHERE has_started = 0;

-- name: report_started
UPDATE tickwheel_question SET has_started = 1 WHERE generation = ? AND due_at = ? AND attempt = ?;

-- name: has_started
SELECT 1 FROM tickwheel_question WHERE generation = ? AND due_at = ? AND attempt = ? AND has_started = 1;

-- name: keys_of_shelf
SELECT shelf, key, due_at, generation FROM tickwheel_key WHERE shelf = :shelf AND key >= :first AND key < :end;

-- name: running_keys
-- Running jobs are among the first jobs by due time. The LIMIT is the number of running jobs, so the scan ends at the
-- last of them.
SELECT shard AS shelf, key, due_at, generation FROM (
    SELECT shard, key, due_at, generation FROM tickwheel_job WHERE shard = 0 AND state = 1
    ORDER BY due_at, generation LIMIT (SELECT running FROM tickwheel_ledger)
) WHERE key >= :first AND key < :end;

-- name: recurring_keys
SELECT shard AS shelf, key, due_at, generation FROM tickwheel_job
WHERE recurrence IS NOT NULL AND key >= :first AND key < :end;

-- name: manifest_keys
SELECT shard AS shelf, key, due_at, generation FROM tickwheel_job
WHERE manifest = :manifest AND key >= :first AND key < :end;

-- name: end_of_reach
SELECT count(*), max(key) FROM (:keys);

-- name: page
SELECT @columns(j, due_at = k.due_at)
FROM (:keys) AS k CROSS JOIN tickwheel_level AS l CROSS JOIN tickwheel_live AS j
    ON j.shard = min(k.shelf, l.shard) AND j.due_at = k.due_at - k.due_at % l.width AND j.generation = k.generation
    AND j.key = k.key AND coalesce(j.instant, j.due_at) = k.due_at
WHERE likelihood(k.shelf >= -4, 0.0000001) AND likelihood(l.width > 0, 0.0000001)
    AND (:state IS NULL OR state % 3 = :state)
    AND k.due_at >= :due_from AND k.due_at < :due_until
    AND (:handler IS NULL OR handler = :handler)
    AND (:target IS NULL OR target = :target)
    AND (:contains IS NULL OR instr(k.key, :contains))
    AND (:error IS NULL OR instr(error, :error))
    AND (:payload IS NULL OR instr(payload, :payload))
    AND (:manifest IS NULL OR manifest = :manifest)
    AND (NOT :recurring OR recurrence IS NOT NULL)
GROUP BY k.key
ORDER BY k.key LIMIT :limit;

-- name: latest_dead
SELECT @columns(payload = x'')
FROM tickwheel_job WHERE shard = -1
ORDER BY due_at DESC, generation DESC LIMIT ?;

-- name: count_paused
SELECT count(*) FROM (SELECT 1 FROM tickwheel_job WHERE shard = -3 LIMIT 10000);

-- name: has_aside
SELECT EXISTS (SELECT 1 FROM tickwheel_job WHERE shard = -2);

-- name: jobs_aside
-- Unroutable jobs of one handler. Without INDEXED BY, some statistics would make the planner read all unroutable jobs.
SELECT @columns
FROM tickwheel_job INDEXED BY tickwheel_job_aside
WHERE shard = -2 AND target = ? AND handler = ?
    AND NOT EXISTS (SELECT 1 FROM json_each(?) AS part WHERE instr(recurrence, part.value) > 0)
    AND generation NOT IN (SELECT value FROM json_each(?))
ORDER BY due_at, generation LIMIT ?;

-- name: jobs_of_target_aside
-- Unroutable jobs of all handlers of a target.
SELECT @columns
FROM tickwheel_job INDEXED BY tickwheel_job_aside
WHERE shard = -2 AND target = ?
    AND NOT EXISTS (SELECT 1 FROM json_each(?) AS part WHERE instr(recurrence, part.value) > 0)
    AND generation NOT IN (SELECT value FROM json_each(?))
ORDER BY due_at, generation LIMIT ?;

-- name: target_aside
-- Without INDEXED BY the planner would read all unroutable jobs.
SELECT min(target) FROM tickwheel_job INDEXED BY tickwheel_job_aside WHERE shard = -2 AND target > ?;

-- name: count_aside
SELECT count(*), (
    SELECT min(due_at) FROM tickwheel_job INDEXED BY tickwheel_job_aside WHERE shard = -2 AND target = ? AND handler = ?
) FROM (
    SELECT 1 FROM tickwheel_job INDEXED BY tickwheel_job_aside WHERE shard = -2 AND target = ? AND handler = ? LIMIT 10000
);

-- name: handlers_aside
-- Each step of the recursion finds the next handler in the index. The cost does not depend on the number of jobs of a
-- handler.
WITH RECURSIVE name (handler) AS (
    SELECT min(handler) FROM tickwheel_job INDEXED BY tickwheel_job_aside WHERE shard = -2 AND target = ?
    UNION ALL
    SELECT (SELECT min(handler) FROM tickwheel_job INDEXED BY tickwheel_job_aside WHERE shard = -2 AND target = ? AND handler > name.handler)
    FROM name WHERE name.handler IS NOT NULL
)
SELECT handler FROM name WHERE handler IS NOT NULL LIMIT ?;

-- name: scopes
SELECT paused_at, by, note, scope FROM tickwheel_scope ORDER BY scope;

-- name: insert_scope
INSERT INTO tickwheel_scope (scope, paused_at, by, note) VALUES (?, ?, ?, ?);

-- name: delete_scope
DELETE FROM tickwheel_scope WHERE scope = ?;

-- name: manifests
SELECT name, version, digest, revision, rules FROM tickwheel_manifest WHERE name = coalesce(?, name) ORDER BY name;

-- name: write_manifest
REPLACE INTO tickwheel_manifest (name, version, digest, revision, rules) VALUES (?, ?, ?, ?, ?);

-- name: answers
SELECT token, part, asked, until, generation, data FROM tickwheel_answer WHERE token = ?;

-- name: write_answer
REPLACE INTO tickwheel_answer (token, part, asked, until, generation, data) VALUES (?, ?, ?, ?, ?, ?);

-- name: delete_answer
DELETE FROM tickwheel_answer WHERE token = ? AND part = ?;

-- name: prune_answers
DELETE FROM tickwheel_answer
WHERE (token, part) IN (SELECT token, part FROM tickwheel_answer WHERE until <= ? ORDER BY until LIMIT ?);
