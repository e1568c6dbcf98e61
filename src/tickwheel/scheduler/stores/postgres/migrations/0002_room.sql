-- All rows of a page fall due together and are begun together: each needs room for its second version beside the first,
-- or the begin of every other one moves it to another page and writes both indexes again. It holds for pages to come.
ALTER TABLE tickwheel_job SET (fillfactor = 45);
