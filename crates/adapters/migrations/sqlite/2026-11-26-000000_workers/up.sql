-- Processes, as they say of themselves. Nothing is decided by them.
CREATE TABLE workers (
    -- Names one start of a process: the owner of leases, the actor of audit entries.
    id            TEXT    NOT NULL PRIMARY KEY,
    machine       TEXT    NOT NULL,
    program       TEXT    NOT NULL,
    -- JSON: names; name, version and definition; ids.
    queues        TEXT    NOT NULL,
    types         TEXT    NOT NULL,
    running       TEXT    NOT NULL,
    concurrency   INTEGER NOT NULL,
    running_count INTEGER NOT NULL,
    -- Microseconds: not seen for so long, it is lost.
    lost_after    INTEGER NOT NULL,
    -- The last pass of a reconciler, and what it did, as JSON.
    passed_at     INTEGER,
    passed        TEXT,
    started_at    INTEGER NOT NULL,
    seen_at       INTEGER NOT NULL,
    stopped_at    INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX workers_by_seen ON workers (seen_at);
