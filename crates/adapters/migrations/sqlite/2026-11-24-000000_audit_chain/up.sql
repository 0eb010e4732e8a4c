-- Binds the entry to all that came before it, and binds that to its time. Empty in rows from before this migration.
ALTER TABLE audit ADD COLUMN link BLOB;
ALTER TABLE audit ADD COLUMN seal BLOB;
-- The seal of the last entry, so that a tail that is cut off is missed.
ALTER TABLE tasks ADD COLUMN audit_seal BLOB;
