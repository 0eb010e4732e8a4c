-- Only types that were ever disabled have a row.
CREATE TABLE task_types (
    name           TEXT        NOT NULL COLLATE "C" PRIMARY KEY,
    -- NULL: it takes submissions.
    disabled_since TIMESTAMPTZ,
    -- From then on the next submission is a probe; NULL: a person has to enable it.
    probe_from     TIMESTAMPTZ,
    probe          UUID,
    probe_since    TIMESTAMPTZ,
    reason         TEXT        NOT NULL,
    by             TEXT        NOT NULL,
    counts_from    TIMESTAMPTZ,
    rev            BIGINT      NOT NULL
);

-- How the tasks of a type ended, one after the other.
CREATE INDEX tasks_ended ON tasks (task_type, status, finished_at) WHERE finished_at IS NOT NULL;
