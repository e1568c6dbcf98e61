-- The queries of `tickwheel doctor`, which runs them in a separate session. No statement writes.

-- name: examine_settings
-- Is the server a standby? For which standbys do commits wait (our sessions have synchronous_commit on)? Are the tables
-- vacuumed and analyzed automatically?
SELECT pg_is_in_recovery(), current_setting('synchronous_standby_names'),
    current_setting('autovacuum')::boolean AND current_setting('track_counts')::boolean, pg_backend_pid();

-- name: examine_standbys
-- Each streaming standby: whether commits wait for it, and the number of log bytes that it still has to replay.
SELECT coalesce(nullif(application_name, ''), 'a standby'), coalesce(sync_state, 'unknown'),
    coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn), 0)::bigint
FROM pg_stat_replication WHERE state IS NULL OR state IN ('streaming', 'catchup') ORDER BY 1;

-- name: examine_slots
-- Each unused replication slot, with the number of log bytes that the server keeps for it.
SELECT slot_name, coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::bigint
FROM pg_replication_slots WHERE NOT active AND NOT temporary ORDER BY 1;

-- name: examine_tables
-- For each table: live rows, dead rows, rows changed since the last ANALYZE, and whether the table was ever analyzed.
SELECT relname, n_live_tup, n_dead_tup, n_mod_since_analyze, coalesce(last_analyze, last_autoanalyze) IS NOT NULL
FROM pg_stat_user_tables WHERE relid = ANY (
    SELECT c.oid FROM pg_class AS c WHERE c.relnamespace = (SELECT relnamespace FROM pg_class
        WHERE oid = to_regclass('tickwheel_job')) AND starts_with(c.relname, 'tickwheel_') AND c.relkind = 'r'
) ORDER BY relname;

-- name: examine_transactions
-- Transactions that keep dead rows from being removed: those of sessions in any database, and prepared transactions.
SELECT 'the session ' || pid || coalesce(' of ' || usename, ''), extract(epoch FROM now() - xact_start)::bigint
FROM pg_stat_activity
WHERE xact_start IS NOT NULL AND pid <> pg_backend_pid() AND backend_type = 'client backend'
UNION ALL
SELECT 'the prepared transaction ' || quote_literal(gid), extract(epoch FROM now() - prepared)::bigint
FROM pg_prepared_xacts ORDER BY 2 DESC, 1;
