-- Recurring jobs, by key: a list of the few among a million that fire once. A job that fires once is not in it,
-- and a begin changes neither column, so that it still rewrites the row in place.
CREATE INDEX tickwheel_job_recurring ON tickwheel_job (key) WHERE recurrence IS NOT NULL;
