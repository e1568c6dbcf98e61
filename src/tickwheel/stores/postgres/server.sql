-- Statements for the identity of the server, and for the fixed rows of every store.

-- name: notice_server
-- Records the server. Returns whether it has changed, whether any server is known, and the number of shards.
WITH c AS (
    SELECT system_identifier, left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) AS timeline, d.oid AS database
    FROM pg_control_system(), pg_database AS d WHERE d.datname = current_database()
), moved AS (
    UPDATE tickwheel_server AS s SET system_identifier = c.system_identifier, timeline = c.timeline,
        table_oid = s.tableoid, database_oid = c.database
    FROM c
    WHERE (s.system_identifier, s.timeline, s.table_oid, s.database_oid)
        IS DISTINCT FROM (c.system_identifier, c.timeline, s.tableoid, c.database)
    RETURNING 1
)
SELECT EXISTS (SELECT FROM moved), EXISTS (SELECT FROM tickwheel_server),
    (SELECT count(*) FROM tickwheel_shard WHERE shard < 1000000);

-- name: is_same_server
-- True if `notice_server` has nothing to do and there are at least the given number of shards.
SELECT EXISTS (
    SELECT FROM tickwheel_server AS s, pg_control_system() AS c, pg_database AS d
    WHERE d.datname = current_database() AND (s.system_identifier, s.timeline, s.table_oid, s.database_oid)
        = (c.system_identifier, left(pg_walfile_name(pg_current_wal_insert_lsn()), 8), s.tableoid, d.oid)
) AND (SELECT count(*) FROM tickwheel_shard WHERE shard < 1000000) >= %s;

-- name: lock_schema
-- One process at a time checks and changes the version, or inserts missing rows.
SELECT pg_advisory_xact_lock(8388345094170240364);

-- name: make_server_again
-- The next `notice_server` fills the other columns.
INSERT INTO tickwheel_server (system_identifier, timeline)
SELECT system_identifier, left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) FROM pg_control_system()
WHERE NOT EXISTS (SELECT FROM tickwheel_server);

-- name: make_version_again
INSERT INTO tickwheel_schema SELECT %s, %s WHERE NOT EXISTS (SELECT FROM tickwheel_schema);

-- name: make_counts_again
-- Inserts row 0 with the numbers of existing jobs, less the counts that sessions have left in rows of their own. If row
-- 0 exists, WHERE avoids the scan, and HAVING drops the row that an aggregate returns even for no input.
INSERT INTO tickwheel_count (slot, pending, running, dead)
SELECT 0, count(*) FILTER (WHERE state = 0) - (SELECT coalesce(sum(pending), 0)::bigint FROM tickwheel_count),
    count(*) FILTER (WHERE state = 1) - (SELECT coalesce(sum(running), 0)::bigint FROM tickwheel_count),
    count(*) FILTER (WHERE state = 2) - (SELECT coalesce(sum(dead), 0)::bigint FROM tickwheel_count)
FROM tickwheel_job WHERE NOT EXISTS (SELECT FROM tickwheel_count WHERE slot = 0)
HAVING NOT EXISTS (SELECT FROM tickwheel_count WHERE slot = 0)
UNION ALL SELECT slot, 0, 0, 0 FROM generate_series(1, 31) AS slot
WHERE NOT EXISTS (SELECT FROM tickwheel_count WHERE slot = 0);

-- name: leap
SELECT setval('tickwheel_generation', nextval('tickwheel_generation') + %(leap)s),
    setval('tickwheel_epoch', nextval('tickwheel_epoch') + %(leap)s);

-- name: free_all_shards
UPDATE tickwheel_shard SET owner = NULL, lease_until = 0;
