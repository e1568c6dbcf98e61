-- The last report of each node, for the view of the fleet: JSON, which no statement looks into.
ALTER TABLE tickwheel_node ADD COLUMN heard_at bigint, ADD COLUMN figures text;
