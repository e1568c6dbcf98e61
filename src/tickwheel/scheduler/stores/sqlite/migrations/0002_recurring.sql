-- Recurring jobs, by key: a list of the few among a million that fire once. A job that fires once is not in it.
CREATE INDEX tickwheel_job_recurring ON tickwheel_job (key) WHERE recurrence IS NOT NULL;
