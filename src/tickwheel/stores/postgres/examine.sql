-- What `tickwheel doctor` asks the server, in a session of its own; no statement writes.

-- name: examine_settings
-- Whether it is a standby, for whom commits wait (our sessions have synchronous_commit on), and whether the tables are
-- looked after.
SELECT pg_is_in_recovery(), current_setting('synchronous_standby_names'),
    current_setting('autovacuum')::boolean AND current_setting('track_counts')::boolean, pg_backend_pid();

-- name: examine_standbys
-- Who streams, whether commits wait for it, and how many bytes of the log it has yet to replay.
SELECT coalesce(nullif(application_name, ''), 'a standby'), coalesce(sync_state, 'unknown'),
    coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn), 0)::bigint
FROM pg_stat_replication WHERE state IS NULL OR state IN ('streaming', 'catchup') ORDER BY 1;

-- name: examine_slots
-- The slots for which the server keeps log that no standby reads, with its bytes.
SELECT slot_name, coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::bigint
FROM pg_replication_slots WHERE NOT active AND NOT temporary ORDER BY 1;

-- name: examine_tables
-- How many rows live and are dead, how many changed since they were last counted, and whether they ever were.
SELECT relname, n_live_tup, n_dead_tup, n_mod_since_analyze, coalesce(last_analyze, last_autoanalyze) IS NOT NULL
FROM pg_stat_user_tables WHERE relid = ANY (
    SELECT c.oid FROM pg_class AS c WHERE c.relnamespace = (SELECT relnamespace FROM pg_class
        WHERE oid = to_regclass('tickwheel_job')) AND starts_with(c.relname, 'tickwheel_') AND c.relkind = 'r'
) ORDER BY relname;

-- name: examine_transactions
-- Those that keep dead rows from being removed: sessions of any database, and transactions that were prepared.
SELECT 'the session ' || pid || coalesce(' of ' || usename, ''), extract(epoch FROM now() - xact_start)::bigint
FROM pg_stat_activity
WHERE xact_start IS NOT NULL AND pid <> pg_backend_pid() AND backend_type = 'client backend'
UNION ALL
SELECT 'the prepared transaction ' || quote_literal(gid), extract(epoch FROM now() - prepared)::bigint
FROM pg_prepared_xacts ORDER BY 2 DESC, 1;
