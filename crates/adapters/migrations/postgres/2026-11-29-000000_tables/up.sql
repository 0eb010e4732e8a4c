-- Times are TIMESTAMPTZ: eight bytes with microseconds, as a BIGINT would be, and a person who looks with psql reads a
-- date. Ids are UUID: sixteen bytes, and version 7 sorts by age. JSON is TEXT: what was written comes back to the byte,
-- where JSONB would make 1e17 another number, and a NUL inside a text stays the six characters \u0000 that JSON writes
-- for it; JSONB refuses it, and the change with it. For a look inside, cast: `data::jsonb -> 'request'`.
-- Keys and enums compare as bytes (COLLATE "C"): faster, and no library update can put an index out of order.
--
-- No foreign keys: every row is written by the statement that writes its task's row and takes the task from there, so
-- there is nothing to find, and a check would cost a query for every row. No CHECKs and no generated columns on what each
-- commit writes: the server parses and plans their expressions anew for every statement (measured on PostgreSQL 15:
-- a quarter of a commit's execution time). What may stand in a column is known to the one program that writes it.

CREATE TABLE tasks (
    id                  UUID        NOT NULL PRIMARY KEY,
    tenant              TEXT        NOT NULL COLLATE "C",
    task_type           TEXT        NOT NULL COLLATE "C",
    version             BIGINT      NOT NULL,
    definition_hash     TEXT        NOT NULL,
    status              TEXT        NOT NULL COLLATE "C",
    waiting             TEXT,
    host                TEXT        NOT NULL,
    queue               TEXT        NOT NULL COLLATE "C",
    rev                 BIGINT      NOT NULL,
    epoch               BIGINT      NOT NULL,
    lease_owner         TEXT,
    lease_expires_at    TIMESTAMPTZ,
    due_at              TIMESTAMPTZ,
    deadline_at         TIMESTAMPTZ,
    cancel_requested_at TIMESTAMPTZ,
    goal                TEXT,
    recovery_attempts   BIGINT      NOT NULL,
    audit_seq           BIGINT      NOT NULL,
    -- The seal of the last row of the journal, so that a tail that is cut off is missed.
    audit_seal          BYTEA,
    failure             TEXT,
    residue             BOOLEAN     NOT NULL,
    traceparent         TEXT,
    -- NULL: none. JSON and not TEXT: a purge reads it, so the server has checked it.
    labels              JSON,
    created_at          TIMESTAMPTZ NOT NULL,
    updated_at          TIMESTAMPTZ NOT NULL,
    finished_at         TIMESTAMPTZ,
    change_id           UUID        NOT NULL,
    -- Since when it is unclaimed; NULL while it is leased, waits, or has ended. A column of its own because an
    -- index on updated_at would change with every commit: as it is, the commits between a claim and the end change no
    -- index at all (a "HOT" update).
    unclaimed_since     TIMESTAMPTZ,
    -- When a sweep is to look at what its attempts have stored; NULL while it is leased, or there is nothing to look at.
    sweep_at            TIMESTAMPTZ,
    -- A reconciler has reserved the lost task until then, at this epoch: others skip it.
    held_until          TIMESTAMPTZ,
    held_epoch          BIGINT
) WITH (fillfactor = 60);  -- Room for the next versions of a row on its own page.

-- The three ways in which a task is due; each index holds only the rows that its query may return.
CREATE INDEX tasks_unclaimed ON tasks (queue, unclaimed_since) WHERE unclaimed_since IS NOT NULL;
CREATE INDEX tasks_due ON tasks (queue, due_at)
    WHERE lease_owner IS NULL AND due_at IS NOT NULL AND status IN ('waiting', 'compensating');
CREATE INDEX tasks_to_sweep ON tasks (sweep_at) WHERE sweep_at IS NOT NULL;
CREATE INDEX tasks_leased ON tasks (lease_expires_at) WHERE lease_owner IS NOT NULL;
-- Lists, of one tenant each: state by state, newest first, with a type or without. NULLS LAST sets their order apart from
-- that of the key, so that no other index can serve a list.
-- The condition holds for each row and is that of lists of all types: without it the server could walk the index for a list of
-- one type, past all tasks of the others, where its statistics do not know of those yet.
CREATE INDEX tasks_of_tenant ON tasks (tenant, status, id DESC NULLS LAST) WHERE version > 0;
CREATE INDEX tasks_of_type ON tasks (tenant, task_type, status, id DESC NULLS LAST);
-- Counts: tasks that have ended are in none of them, and are most of the table.
CREATE INDEX tasks_open ON tasks (status, id) WHERE status NOT IN ('completed', 'failed', 'cancelled', 'resolved');
-- Tasks that retention takes, in its whole order, and the count of a type's failures.
CREATE INDEX tasks_ended ON tasks (task_type, status, finished_at, id) WHERE finished_at IS NOT NULL;

-- The labels of `tasks` once more, to be searched: a list by one label is one range of the key, the newest last. Written with
-- the task's row, and deleted with it, by what the row says.
CREATE TABLE task_labels (
    tenant TEXT NOT NULL COLLATE "C",
    name   TEXT NOT NULL COLLATE "C",
    value  TEXT NOT NULL COLLATE "C",
    task   UUID NOT NULL,
    PRIMARY KEY (tenant, name, value, task)
);

-- Tasks that sleep for others that they have submitted. By the id, which never changes: an index on what each commit writes
-- would have to be written by each commit.
CREATE INDEX tasks_with_children ON tasks (id) WHERE waiting = 'children';

-- Tasks that a step of another task has submitted. A row is written with the task's own, and deleted with it or with its
-- parent.
CREATE TABLE children (
    parent UUID    NOT NULL,
    step   INTEGER NOT NULL,
    -- Its place among the tasks of the step, from 0.
    no     INTEGER NOT NULL,
    task   UUID    NOT NULL,
    PRIMARY KEY (parent, step, no)
);

CREATE UNIQUE INDEX children_by_task ON children (task);

-- Tasks of types that count how many are under way, while they are not at rest. A row is written with the task's own.
CREATE TABLE places (
    -- The type, or behind it the tenant and the digest of what the declaration makes of the request.
    key        TEXT        NOT NULL COLLATE "C",
    task       UUID        NOT NULL PRIMARY KEY,
    -- The number of the place that it holds, below the number that may be under way; NULL: it holds none.
    no         BIGINT,
    -- That of the task: its place in line.
    created_at TIMESTAMPTZ NOT NULL,
    -- The transaction that submitted it; NULL: it was counted before.
    entered_in XID8        DEFAULT pg_current_xact_id(),
    -- What the claim that took its place could see: a task that was committed later counts as newer, whenever its
    -- transaction began.
    saw        PG_SNAPSHOT
);

-- No place is held twice, whichever process claims a task and whenever.
CREATE UNIQUE INDEX places_taken ON places (key, no) WHERE no IS NOT NULL;
CREATE INDEX places_in_line ON places (key, created_at, task);

-- Files of requests that have no task yet: the submission removes the row, or a sweep does with the files.
CREATE TABLE receives (
    task         UUID        NOT NULL PRIMARY KEY,
    tenant       TEXT        NOT NULL COLLATE "C",
    -- It never becomes a task.
    is_condemned BOOLEAN     NOT NULL,
    -- From then on a sweep may condemn it.
    sweep_at     TIMESTAMPTZ NOT NULL
);

CREATE INDEX receives_to_sweep ON receives (sweep_at);

-- What each change of a task did, one row a change, only ever added. `entries` says what happened, `data` what clients and
-- steps handed in. `link` binds `entries`, which hold the digest of `data`, to all rows before; `seal` binds the time too.
CREATE TABLE journal (
    task      UUID        NOT NULL,
    rev       BIGINT      NOT NULL,
    epoch     BIGINT      NOT NULL,
    at        TIMESTAMPTZ NOT NULL,
    change_id UUID        NOT NULL,
    actor     TEXT        NOT NULL,
    form      INTEGER     NOT NULL,
    entries   TEXT        NOT NULL,
    data      TEXT,
    link      BYTEA       NOT NULL,
    seal      BYTEA       NOT NULL,
    PRIMARY KEY (task, rev)
);

-- What steps logged, some lines a row: no part of a task's state. The size kept of a task is bounded; a row counts the lines before
-- it that are gone.
CREATE TABLE task_logs (
    task    UUID    NOT NULL,
    epoch   BIGINT  NOT NULL,
    -- From 1 in each epoch. A turn that has a row may write it again.
    no      INTEGER NOT NULL,
    lines   INTEGER NOT NULL,
    bytes   INTEGER NOT NULL,
    dropped BIGINT  NOT NULL,
    body    TEXT    NOT NULL,
    PRIMARY KEY (task, epoch, no)
);

-- What other services are told of a change, one row a change, deleted when it is published. Messages for hosts are not
-- written: a task that waits for a host says so in its own row.
CREATE TABLE outbox (
    id         BIGINT      GENERATED ALWAYS AS IDENTITY,
    task       UUID        NOT NULL,
    events     TEXT        NOT NULL,
    change_id  UUID        NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    -- Until then a relay has it.
    visible_at TIMESTAMPTZ NOT NULL,
    -- Without a key of its own a table cannot be published: a publication for all tables would refuse every deletion. The
    -- task comes first: so its rows are found with it when it is deleted, and the relay, which goes by id, does not take
    -- this index for its own.
    PRIMARY KEY (task, id)
);

-- The condition of each index is always true and stands in the queries that the index is for: without it the server could
-- read the other index from end to end instead, and on an empty table it does, and keeps the plan.
CREATE UNIQUE INDEX outbox_to_relay ON outbox (id) WHERE id > 0;
CREATE INDEX outbox_by_change ON outbox (change_id) WHERE change_id > '00000000-0000-0000-0000-000000000000';

CREATE TABLE idempotency (
    tenant      TEXT        NOT NULL COLLATE "C",
    key         TEXT        NOT NULL COLLATE "C",
    task        UUID        NOT NULL,
    fingerprint TEXT,
    answer      TEXT,
    expires_at  TIMESTAMPTZ NOT NULL,
    change_id   UUID        NOT NULL,
    -- The process that receives the request, while it arrives: once the process is gone, the key is free. NULL: unknown.
    owner       TEXT,
    PRIMARY KEY (tenant, key)
);

CREATE INDEX idempotency_by_task ON idempotency (task);

-- Ends the statement that calls it, with everything that it has written. The adapter reads the reason from the field
-- "constraint" of the error, which no language setting translates.
CREATE FUNCTION counterstep_refuse(reason TEXT) RETURNS BOOLEAN LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'counterstep refuses the change: %', reason USING ERRCODE = 'CS001', CONSTRAINT = reason;
END
$$;

-- A task whose rows are deleted, until nothing is left of its objects either.
CREATE TABLE tombstones (
    task   UUID        NOT NULL PRIMARY KEY,
    tenant TEXT        NOT NULL COLLATE "C",
    at     TIMESTAMPTZ NOT NULL
);

CREATE INDEX tombstones_by_age ON tombstones (at, task);

-- Schedules, task types that were disabled, the worker registry and the progress of listings: each a JSON text that the
-- kernel reads and writes, with what the store has to know beside it.
CREATE TABLE documents (
    -- schedule, task_type, worker or listing.
    kind    TEXT        NOT NULL COLLATE "C",
    tenant  TEXT        NOT NULL COLLATE "C",
    name    TEXT        NOT NULL COLLATE "C",
    -- Grows by one with each write; a write names the one that it was decided on.
    rev     BIGINT      NOT NULL,
    body    TEXT        NOT NULL,
    -- When something is to be done about it.
    due_at  TIMESTAMPTZ,
    -- Its last write. In no index: a process writes its row every few seconds.
    seen_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (kind, tenant, name)
) WITH (fillfactor = 60);

CREATE INDEX documents_due ON documents (kind, due_at, tenant, name) WHERE due_at IS NOT NULL;
