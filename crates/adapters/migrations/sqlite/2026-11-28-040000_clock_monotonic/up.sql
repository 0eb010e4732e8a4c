-- The machine's monotonic time at the write that left `at`: a process that starts later can tell time that has passed from
-- a calendar that was set.
ALTER TABLE clock ADD COLUMN monotonic INTEGER;
