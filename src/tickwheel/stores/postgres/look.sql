-- Statements that read the jobs of some shards. Most other statements are in `queries.sql`.

-- name: take_notes
-- Deletes and returns the notes of some shards. Only a shard's owner gets them: a former owner that has not noticed the
-- takeover would otherwise delete the notes of its successor. A note is returned without its job in two cases: the job
-- has changed since the note was written, or it is due after the shard's cursor and will be read anyway. The limit
-- applies twice to each shard: to its oldest notes and to its newest. Without an owner, a million notes may accumulate,
-- mostly of jobs that a new owner reads anyway; a job that is set now must not wait until these are deleted.
WITH found AS MATERIALIZED (
    SELECT note.place, mine.number, mine.instant
    FROM unnest(%(shards)s::integer[], %(epochs)s::bigint[], %(instants)s::bigint[]) AS mine (number, epoch, instant)
    CROSS JOIN LATERAL (
        SELECT s.shard FROM tickwheel_shard AS s
        WHERE s.shard = mine.number AND s.epoch = mine.epoch AND s.owner = %(owner)s OFFSET 0
    ) AS owned CROSS JOIN LATERAL (
        (
            SELECT n.ctid AS place FROM tickwheel_note AS n WHERE n.shard = owned.shard
            ORDER BY n.shard, n.generation LIMIT %(limit)s
        ) UNION (
            SELECT n.ctid FROM tickwheel_note AS n WHERE n.shard = owned.shard
            ORDER BY n.shard DESC, n.generation DESC LIMIT %(limit)s
        )
    ) AS note
), note AS (
    DELETE FROM tickwheel_note AS n USING (SELECT * FROM found OFFSET 0) AS found
    WHERE n.ctid = found.place
    RETURNING found.number, found.instant, n.key, n.generation
)
SELECT note.number, @columns(j)
FROM note LEFT JOIN LATERAL (
    SELECT * FROM (SELECT * FROM tickwheel_job WHERE tickwheel_job.key = note.key OFFSET 0) AS job
    WHERE job.generation = note.generation AND job.state = 0 AND job.due_at <= note.instant
) AS j ON true;

-- name: jobs_ahead
-- For each shard, from its cursor on: the jobs due before `until`, and the first later job.
SELECT number, @columns
FROM unnest(%(shards)s::integer[], %(instants)s::bigint[], %(generations)s::bigint[]) AS shards (number, instant, last)
CROSS JOIN LATERAL (
    (
        SELECT * FROM tickwheel_job
        WHERE shard = number AND due_at < %(until)s AND (due_at, generation) > (instant, last) AND state = 0
        ORDER BY due_at, generation LIMIT %(limit)s
    ) UNION ALL (
        SELECT * FROM tickwheel_job
        WHERE shard = number AND due_at >= %(until)s AND (due_at, generation) > (instant, last) AND state = 0
        ORDER BY due_at, generation LIMIT 1
    )
) AS job
ORDER BY number, due_at, generation;

-- name: jobs_in_lanes
-- Reads up to `rows` jobs of each shard, from its cursor on. Returns those in the given lanes, or those in all other
-- lanes. If there may be more jobs, also returns the due time and generation of the last job that was read. The lane of
-- a URL ends before the URL's path: see `lane_of`.
SELECT number, stop.due_at, stop.generation, job.*
FROM unnest(%(shards)s::integer[], %(instants)s::bigint[], %(generations)s::bigint[]) AS shards (number, instant, last)
LEFT JOIN LATERAL (
    SELECT due_at, generation FROM tickwheel_job
    WHERE shard = number AND due_at < %(until)s AND (due_at, generation) > (instant, last) AND state = 0
    ORDER BY due_at, generation OFFSET %(rows)s - 1 LIMIT 1
) AS stop ON true
LEFT JOIN LATERAL (
    SELECT @columns FROM (
        SELECT *, target || ':' || CASE WHEN target IN ('handler', 'pull') THEN handler
            WHEN strpos(handler, '://') = 0 THEN ''
            ELSE left(handler, strpos(handler, '://') + 1
                + strpos(translate(substr(handler, strpos(handler, '://') + 3), '?#', '//') || '/', '/')) END AS lane
        FROM tickwheel_job
        WHERE shard = number AND due_at < %(until)s AND (due_at, generation) > (instant, last) AND state = 0
        ORDER BY due_at, generation LIMIT %(rows)s
    ) AS read
    WHERE (lane IN (SELECT unnest(%(lanes)s::text[])) OR (
        target IN (SELECT unnest(%(targets)s::text[])) AND lane NOT IN (SELECT unnest(%(others)s::text[]))
    )) = %(inside)s
    ORDER BY due_at, generation LIMIT %(limit)s
) AS job ON true
ORDER BY number, job.due_at, job.generation;
