-- Processes, as they say of themselves. Nothing is decided by them.
CREATE TABLE workers (
    -- Names one start of a process: the owner of leases, the actor of audit entries.
    id            TEXT        NOT NULL COLLATE "C" PRIMARY KEY,
    machine       TEXT        NOT NULL,
    program       TEXT        NOT NULL,
    -- JSON: names; name, version and definition; ids.
    queues        TEXT        NOT NULL,
    types         TEXT        NOT NULL,
    running       TEXT        NOT NULL,
    concurrency   BIGINT      NOT NULL,
    running_count BIGINT      NOT NULL,
    -- Microseconds: not seen for so long, it is lost.
    lost_after    BIGINT      NOT NULL,
    -- The last pass of a reconciler, and what it did, as JSON.
    passed_at     TIMESTAMPTZ,
    passed        TEXT,
    started_at    TIMESTAMPTZ NOT NULL,
    seen_at       TIMESTAMPTZ NOT NULL,
    stopped_at    TIMESTAMPTZ
) WITH (fillfactor = 60);

CREATE INDEX workers_by_seen ON workers (seen_at);
