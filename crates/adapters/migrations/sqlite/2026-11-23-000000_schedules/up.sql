CREATE TABLE schedules (
    tenant        TEXT    NOT NULL,
    name          TEXT    NOT NULL,
    -- code: a program declares it. api: it was made over the API.
    origin        TEXT    NOT NULL CHECK (origin IN ('code', 'api')),
    task_type     TEXT    NOT NULL,
    -- Times, request and policies, as JSON.
    spec          TEXT    NOT NULL,
    paused        INTEGER NOT NULL,
    next_due_at   INTEGER,
    last_due_at   INTEGER,
    last_fired_at INTEGER,
    last_task     TEXT,
    -- Grows with each change and each firing; a firing is refused where it is not the one that was read.
    rev           INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX schedules_due ON schedules (next_due_at) WHERE paused = 0 AND next_due_at IS NOT NULL;
