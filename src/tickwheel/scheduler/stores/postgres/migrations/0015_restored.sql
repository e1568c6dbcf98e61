-- By which a dump that was restored on the same server is noticed: a table that was made again has another OID, and so
-- does a database that is a copy. NULL where a node wrote the row that does not know this.
ALTER TABLE tickwheel_server ADD COLUMN table_oid oid, ADD COLUMN database_oid oid;

UPDATE tickwheel_server
SET table_oid = tableoid, database_oid = (SELECT oid FROM pg_database WHERE datname = current_database());
