-- Which server the sequences were last drawn from. After a failover, or a restore, another one answers, or the same one
-- on another timeline: what it has may be behind what was given out.
CREATE TABLE tickwheel_server (
    system_identifier bigint NOT NULL,
    timeline text NOT NULL
);

INSERT INTO tickwheel_server
SELECT system_identifier, left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) FROM pg_control_system();
