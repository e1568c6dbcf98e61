-- The statements of a look into some shards; `queries.sql` has most others.

-- name: take_notes
-- By the shard's owner alone: a former one that has not noticed would take them away from its successor.
WITH note AS (
    DELETE FROM tickwheel_note WHERE shard = ANY (ARRAY(
        SELECT s.shard FROM tickwheel_shard AS s
        JOIN unnest(%(shards)s::integer[], %(epochs)s::bigint[]) AS shards (number, epoch)
            ON s.shard = shards.number AND s.epoch = shards.epoch
        WHERE s.owner = %(owner)s
    ))
    RETURNING shard AS number, key, generation
)
SELECT note.number, @columns(j)
FROM note
JOIN unnest(%(shards)s::integer[], %(instants)s::bigint[]) AS shards (number, instant) ON shards.number = note.number
CROSS JOIN LATERAL (SELECT * FROM tickwheel_job WHERE tickwheel_job.key = note.key) AS j
WHERE j.generation = note.generation AND j.state = 0 AND j.due_at <= shards.instant;

-- name: jobs_ahead
-- From the cursor of each shard on: those due before an instant, and the first one after it.
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
