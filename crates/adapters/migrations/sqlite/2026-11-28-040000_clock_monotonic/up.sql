-- The machine's monotonic time at the write that left `at`: a process that starts later can tell time that has passed from
-- a calendar that was set. Times of two origins (boots, or namespaces) cannot be compared.
ALTER TABLE clock ADD COLUMN monotonic INTEGER;
ALTER TABLE clock ADD COLUMN origin TEXT;
