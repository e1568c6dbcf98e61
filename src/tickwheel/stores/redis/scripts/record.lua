-- Adds records of events to the history.
-- Input:  key, record, ...
-- Output: nothing
for i = 1, #ARGV, 2 do
    keep_record(ARGV[i], ARGV[i + 1])
end
