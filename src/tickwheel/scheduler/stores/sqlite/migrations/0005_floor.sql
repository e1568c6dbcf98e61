-- An instant below which nothing is pending and due. Begun jobs are at the front until they end; a look-up of what is due
-- starts here, behind them. Every commit that makes a job pending below lowers it, and those of the owner raise it.
ALTER TABLE tickwheel_ledger ADD COLUMN floor INTEGER NOT NULL DEFAULT -9223372036854775808;
