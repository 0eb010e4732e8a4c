-- Whose turn it is to list all objects in search of orphans: a row for each interval at which that is done.
CREATE TABLE listings (
    every_us   BIGINT      NOT NULL PRIMARY KEY,
    -- When the last one was begun, finished or not.
    started_at TIMESTAMPTZ NOT NULL,
    -- How far it has come; NULL: to its end.
    cursor     TEXT,
    held_by    TEXT        NOT NULL,
    held_until TIMESTAMPTZ NOT NULL
);
