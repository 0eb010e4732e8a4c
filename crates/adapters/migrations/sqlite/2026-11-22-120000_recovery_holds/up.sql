-- A reconciler is about to take this task back from the host that held it under this epoch: until then no other one tries.
ALTER TABLE tasks ADD COLUMN held_until INTEGER;
ALTER TABLE tasks ADD COLUMN held_epoch INTEGER;
