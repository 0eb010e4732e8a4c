-- While a step waits: when its next attempt, its timer, or the deadline of its signal is due.
ALTER TABLE steps ADD COLUMN due_at INTEGER;
-- The signal that came for the step, with its sender and its time, as JSON; before the step waits for it, too.
ALTER TABLE steps ADD COLUMN signal TEXT;
-- The step gave up, and its fallback runs in its place.
ALTER TABLE steps ADD COLUMN in_fallback INTEGER NOT NULL DEFAULT 0;
