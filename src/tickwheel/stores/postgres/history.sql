-- Statements for the history. Most other statements are in `queries.sql`.

-- name: insert_records
INSERT INTO tickwheel_history (
    at, key, generation, attempt, outcome, by, target, handler, due_at, begun_at, took_ms, error, traceback, trace, note,
    nominal_at, was_due_at, bulk
)
SELECT * FROM unnest(%s::bigint[], %s::text[], %s::bigint[], %s::integer[], %s::text[], %s::text[], %s::text[], %s::text[],
    %s::bigint[], %s::double precision[], %s::double precision[], %s::text[], %s::text[], %s::text[], %s::text[],
    %s::bigint[], %s::bigint[], %s::text[]);

-- name: history
-- `key >=` forces the index by key. With `key =` the server might read the records of all keys in the order of numbers.
SELECT number, at, key, generation, attempt, outcome, by, target, handler, due_at, begun_at, took_ms, error, traceback, trace, note,
    nominal_at, was_due_at, bulk
FROM tickwheel_history WHERE key >= %(key)s AND (key, number) < (%(key)s, %(before)s)
ORDER BY key DESC, number DESC LIMIT %(limit)s;

-- name: acts
SELECT number, at, key, generation, attempt, outcome, by, target, handler, due_at, begun_at, took_ms, error, traceback, trace, note,
    nominal_at, was_due_at, bulk
FROM tickwheel_history WHERE attempt = 0 AND bulk IS NULL AND at >= %(since)s AND at < %(until)s
ORDER BY at DESC, number DESC LIMIT %(limit)s;

-- name: keep_minutes
INSERT INTO tickwheel_minute (span_ms, at, owner, figures)
SELECT * FROM unnest(%s::integer[], %s::bigint[], %s::text[], %s::text[])
ON CONFLICT (span_ms, at, owner) DO UPDATE SET figures = excluded.figures;

-- name: minutes
SELECT owner, at, span_ms, figures FROM tickwheel_minute
WHERE span_ms >= %(span_ms)s AND span_ms <= %(span_ms)s AND at >= %(since)s AND at < %(until)s ORDER BY span_ms, at, owner;

-- name: forget_minutes
DELETE FROM tickwheel_minute WHERE (span_ms = %s AND at < %s) OR (span_ms = %s AND at < %s);

-- name: count_history
-- Counts all records except those in the log of acts, which has a limit of its own.
SELECT (SELECT count(*) FROM (SELECT number FROM tickwheel_history ORDER BY number OFFSET 0) AS records) - (
    SELECT count(*) FROM tickwheel_history WHERE attempt = 0 AND bulk IS NULL
);

-- name: count_old_history
-- Counts the old records among the first records by number; the caller then deletes this number of records from the
-- front. This assumes that numbers grow with time. Where clocks differ, a younger record may be deleted before an older
-- one.
SELECT count(*) FROM (SELECT at FROM tickwheel_history ORDER BY number LIMIT %s) AS front WHERE at < %s;

-- name: may_prune
-- One pruning at a time: if two ran at once, both would delete the records that both had counted.
SELECT pg_try_advisory_xact_lock(8387794215047852147);

-- name: delete_history
DELETE FROM tickwheel_history WHERE number <= (
    SELECT max(number) FROM (SELECT number FROM tickwheel_history ORDER BY number LIMIT %s) AS front
);

-- name: delete_others
DELETE FROM tickwheel_history WHERE (attempt > 0 OR bulk IS NOT NULL) AND number <= (
    SELECT max(number) FROM (
        SELECT number FROM tickwheel_history WHERE attempt > 0 OR bulk IS NOT NULL ORDER BY number LIMIT %s
    ) AS front
);

-- name: delete_acts
-- Deletes all but the newest records from the log of acts.
DELETE FROM tickwheel_history WHERE number = ANY(ARRAY(
    SELECT number FROM tickwheel_history WHERE attempt = 0 AND bulk IS NULL
    ORDER BY at DESC, number DESC LIMIT %s OFFSET %s
));

-- name: long_histories
-- Keys with more records than the limit, not counting the log of acts. Returns each key with the number of the newest
-- record to delete.
SELECT key, (
    SELECT number FROM tickwheel_history AS h
    WHERE h.key >= long.key AND h.key <= long.key AND (h.attempt > 0 OR h.bulk IS NOT NULL)
    ORDER BY key DESC, number DESC LIMIT 1 OFFSET %(most)s
)
FROM (
    SELECT key FROM tickwheel_history GROUP BY key
    HAVING count(*) > %(most)s AND count(*) FILTER (WHERE attempt > 0 OR bulk IS NOT NULL) > %(most)s
    ORDER BY key LIMIT %(limit)s
) AS long;

-- name: shorten_histories
DELETE FROM tickwheel_history AS h
USING (
    SELECT found.ctid FROM unnest(%s::text[], %s::bigint[]) AS long (key, number) CROSS JOIN LATERAL (
        SELECT h.ctid FROM tickwheel_history AS h
        WHERE h.key >= long.key AND (h.key, h.number) <= (long.key, long.number)
            AND (h.attempt > 0 OR h.bulk IS NOT NULL)
        ORDER BY h.key, h.number OFFSET 0
    ) AS found
    LIMIT %s
) AS surplus
WHERE h.ctid = surplus.ctid;
