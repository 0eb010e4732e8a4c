-- Messages that nobody understands. One row for each message, however often it was delivered.
CREATE TABLE poison (
    id         INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    source     TEXT    NOT NULL UNIQUE,
    queue      TEXT    NOT NULL,
    subject    TEXT    NOT NULL,
    -- At most the first 64 KiB.
    payload    BLOB    NOT NULL,
    size_bytes INTEGER NOT NULL,
    reason     TEXT    NOT NULL,
    at         INTEGER NOT NULL
) STRICT;
