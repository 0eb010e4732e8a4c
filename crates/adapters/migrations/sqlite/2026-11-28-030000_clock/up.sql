-- The latest time that a write of this database has used: SQLite has no clock of its own, and that of the machine may be
-- set back.
CREATE TABLE clock (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    at INTEGER NOT NULL
) STRICT;
INSERT INTO clock (id, at) VALUES (1, 0);
