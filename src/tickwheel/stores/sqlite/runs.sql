-- Statements for runs of keys, and for merging shelves into runs: see tickwheel_shelf in the migration.

-- name: all_shelves
SELECT shelf FROM tickwheel_shelf;

-- name: runs
SELECT shelf, size FROM tickwheel_shelf WHERE shelf > 1;

-- name: filters_from
SELECT last, bits FROM tickwheel_filter WHERE shelf = ? AND last >= ? ORDER BY last;

-- name: shelves
SELECT shelf, size, goal FROM tickwheel_shelf WHERE shelf > 0;

-- name: is_shelf_full
SELECT EXISTS (SELECT 1 FROM tickwheel_key WHERE shelf = 1 LIMIT 1 OFFSET ?);

-- name: insert_run
INSERT INTO tickwheel_shelf (shelf, size) VALUES (?, 0);

-- name: set_goal
UPDATE tickwheel_shelf SET goal = ? WHERE shelf = ?;

-- name: end_of_run
SELECT max(last) FROM tickwheel_filter WHERE shelf = ?;

-- name: keys_from
SELECT key FROM tickwheel_key WHERE shelf = ? AND key >= ? ORDER BY key LIMIT ?;

-- name: delete_stale_keys
-- Deletes keys of one shelf whose job no longer has the due time and generation that are stored with the key. With
-- several shelves in one statement, SQLite's plan would depend on statistics.
DELETE FROM tickwheel_key
WHERE shelf = ? AND key IN (:keys) AND NOT EXISTS (
    SELECT 1 FROM tickwheel_level AS l CROSS JOIN tickwheel_live AS j
        ON j.shard = l.shard AND j.due_at = tickwheel_key.due_at - tickwheel_key.due_at % l.width
        AND j.generation = tickwheel_key.generation
    WHERE l.shard <= 0 AND j.key = tickwheel_key.key AND coalesce(j.instant, j.due_at) = tickwheel_key.due_at
);

-- name: move_keys
-- Moves all keys that are due at or after an instant. Of the earlier keys, moves only those whose job still has the due
-- time and generation that are stored with the key.
INSERT OR IGNORE INTO tickwheel_key (shelf, key, due_at, generation)
SELECT s.goal, k.key, k.due_at, k.generation
FROM tickwheel_shelf AS s CROSS JOIN tickwheel_key AS k ON k.shelf = s.shelf AND k.key >= ? AND k.key <= ?
WHERE s.goal = ? AND (k.due_at >= ? OR EXISTS (
    SELECT 1 FROM tickwheel_level AS l CROSS JOIN tickwheel_live AS j
        ON j.shard = l.shard AND j.due_at = k.due_at - k.due_at % l.width AND j.generation = k.generation
    WHERE l.shard <= 0 AND j.key = k.key AND coalesce(j.instant, j.due_at) = k.due_at
))
ORDER BY k.key;

-- name: delete_moved_keys
DELETE FROM tickwheel_key
WHERE shelf IN (SELECT shelf FROM tickwheel_shelf WHERE goal = ?) AND key >= ? AND key <= ?;

-- name: delete_moved_filters
DELETE FROM tickwheel_filter WHERE shelf IN (SELECT shelf FROM tickwheel_shelf WHERE goal = ?) AND last <= ?;

-- name: insert_filter
INSERT INTO tickwheel_filter (shelf, last, bits) VALUES (?, ?, ?);

-- name: grow_run
UPDATE tickwheel_shelf SET size = size + ? WHERE shelf = ?;

-- name: delete_filters_of_merged
DELETE FROM tickwheel_filter WHERE shelf IN (SELECT shelf FROM tickwheel_shelf WHERE goal = ?);

-- name: delete_merged_runs
DELETE FROM tickwheel_shelf WHERE goal = ? AND shelf > 1;

-- name: delete_empty_run
DELETE FROM tickwheel_shelf WHERE shelf = ? AND size = 0;

-- name: free_shelf
UPDATE tickwheel_shelf SET goal = NULL WHERE goal = ?;
