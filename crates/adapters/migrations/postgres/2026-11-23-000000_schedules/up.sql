CREATE TABLE schedules (
    tenant        TEXT        NOT NULL COLLATE "C",
    name          TEXT        NOT NULL COLLATE "C",
    -- code: a program declares it. api: it was made over the API.
    origin        TEXT        NOT NULL COLLATE "C",
    task_type     TEXT        NOT NULL COLLATE "C",
    -- Times, request and policies, as JSON.
    spec          TEXT        NOT NULL,
    paused        BOOLEAN     NOT NULL,
    next_due_at   TIMESTAMPTZ,
    last_due_at   TIMESTAMPTZ,
    last_fired_at TIMESTAMPTZ,
    last_task     UUID,
    -- Grows with each change and each firing; a firing is refused where it is not the one that was read.
    rev           BIGINT      NOT NULL,
    created_at    TIMESTAMPTZ NOT NULL,
    updated_at    TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (tenant, name)
);

CREATE INDEX schedules_due ON schedules (next_due_at) WHERE NOT paused AND next_due_at IS NOT NULL;
