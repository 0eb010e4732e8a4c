-- Times are microseconds since 1970 UTC by SQLite's own clock. Ids are hyphenated UUIDs as TEXT: a person who opens the
-- file with `sqlite3` can read them and paste them from a log, and version 7 sorts the same as text as it does as
-- bytes; the price is 20 bytes an id. JSON is TEXT, enums are their stable texts.

CREATE TABLE tasks (
    id                  TEXT    NOT NULL PRIMARY KEY,
    tenant              TEXT    NOT NULL,
    task_type           TEXT    NOT NULL,
    version             INTEGER NOT NULL,
    definition_hash     TEXT    NOT NULL,
    status              TEXT    NOT NULL,
    waiting             TEXT,
    host                TEXT    NOT NULL,
    queue               TEXT    NOT NULL,
    rev                 INTEGER NOT NULL,
    epoch               INTEGER NOT NULL,
    lease_owner         TEXT,
    lease_expires_at    INTEGER,
    due_at              INTEGER,
    deadline_at         INTEGER,
    cancel_requested_at INTEGER,
    goal                TEXT,
    recovery_attempts   INTEGER NOT NULL,
    audit_seq           INTEGER NOT NULL,
    -- The seal of the last row of the journal, so that a tail that is cut off is missed.
    audit_seal          BLOB,
    failure             TEXT,
    residue             INTEGER NOT NULL,
    traceparent         TEXT,
    -- JSON; NULL: none.
    labels              TEXT,
    created_at          INTEGER NOT NULL,
    updated_at          INTEGER NOT NULL,
    finished_at         INTEGER,
    -- When a sweep looks at what its attempts have stored; NULL: there is nothing for it, or the task is leased.
    sweep_at            INTEGER,
    change_id           TEXT    NOT NULL,
    -- A reconciler has reserved the lost task until then, at this epoch: others skip it.
    held_until          INTEGER,
    held_epoch          INTEGER,
    CHECK ((lease_owner IS NULL) = (lease_expires_at IS NULL))
) STRICT;

-- The three ways in which a task is due; each index holds only the rows that its query may return.
CREATE INDEX tasks_unclaimed ON tasks (queue, updated_at)
    WHERE lease_owner IS NULL
      AND (status IN ('submitted', 'dispatched') OR (status = 'compensating' AND due_at IS NULL));
CREATE INDEX tasks_due ON tasks (queue, due_at)
    WHERE lease_owner IS NULL AND due_at IS NOT NULL AND status IN ('waiting', 'compensating');
CREATE INDEX tasks_leased ON tasks (lease_expires_at) WHERE lease_owner IS NOT NULL;
CREATE INDEX tasks_to_sweep ON tasks (sweep_at) WHERE sweep_at IS NOT NULL;
-- Lists, newest first.
CREATE INDEX tasks_by_status ON tasks (status, id);
CREATE INDEX tasks_by_type ON tasks (task_type, id);
CREATE INDEX tasks_by_tenant ON tasks (tenant, id);
CREATE INDEX tasks_by_type_and_status ON tasks (task_type, status, id);
-- Tasks that retention takes, and the count of a type's failures.
CREATE INDEX tasks_ended ON tasks (task_type, status, finished_at) WHERE finished_at IS NOT NULL;

-- The labels of `tasks` once more, to be searched: a list by one label is one range of the key, the newest last.
CREATE TABLE task_labels (
    tenant TEXT NOT NULL,
    name   TEXT NOT NULL,
    value  TEXT NOT NULL,
    task   TEXT NOT NULL,
    PRIMARY KEY (tenant, name, value, task)
) STRICT, WITHOUT ROWID;

-- Tasks that sleep for others that they have submitted.
CREATE INDEX tasks_with_children ON tasks (id) WHERE waiting = 'children';

-- Tasks that a step of another task has submitted. A row is written with the task's own, and deleted with it or with its
-- parent.
CREATE TABLE children (
    parent TEXT    NOT NULL,
    step   INTEGER NOT NULL,
    -- Its place among the tasks of the step, from 0.
    no     INTEGER NOT NULL,
    task   TEXT    NOT NULL UNIQUE,
    PRIMARY KEY (parent, step, no)
) STRICT, WITHOUT ROWID;

-- Tasks of types that count how many are under way, while they are not at rest. A row is written with the task's own.
CREATE TABLE places (
    -- The type, or behind it the tenant and the digest of what the declaration makes of the request.
    key        TEXT    NOT NULL,
    task       TEXT    NOT NULL PRIMARY KEY,
    -- The number of the place that it holds, below the number that may be under way; NULL: it holds none.
    no         INTEGER,
    -- That of the task: its place in line.
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- No place is held twice, whichever process claims a task and whenever.
CREATE UNIQUE INDEX places_taken ON places (key, no) WHERE no IS NOT NULL;
CREATE INDEX places_in_line ON places (key, created_at, task);

-- The files of requests that have no task yet; the row goes when the request becomes one. No foreign key to tasks for that
-- reason.
CREATE TABLE receives (
    -- The id that its task will have.
    task         TEXT    NOT NULL PRIMARY KEY,
    tenant       TEXT    NOT NULL,
    -- It never becomes a task: a sweep may delete its files.
    is_condemned INTEGER NOT NULL,
    -- From then on a sweep may condemn it.
    sweep_at     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX receives_to_sweep ON receives (sweep_at);

-- What each change of a task did, one row a change, only ever added. `entries` says what happened, `data` what clients and
-- steps handed in. `link` binds `entries`, which hold the digest of `data`, to all rows before; `seal` binds the time too.
-- With a rowid: `data` may be large, and would fill the pages of the index.
CREATE TABLE journal (
    task      TEXT    NOT NULL REFERENCES tasks (id),
    rev       INTEGER NOT NULL,
    epoch     INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    change_id TEXT    NOT NULL,
    actor     TEXT    NOT NULL,
    form      INTEGER NOT NULL,
    entries   TEXT    NOT NULL,
    data      TEXT,
    link      BLOB    NOT NULL,
    seal      BLOB    NOT NULL,
    PRIMARY KEY (task, rev)
) STRICT;

-- What steps logged, some lines a row: no part of a task's state. The size kept of a task is bounded; a row counts the lines before
-- it that are gone.
CREATE TABLE task_logs (
    task    TEXT    NOT NULL,
    epoch   INTEGER NOT NULL,
    -- From 1 in each epoch. A turn that has a row may write it again.
    no      INTEGER NOT NULL,
    lines   INTEGER NOT NULL,
    bytes   INTEGER NOT NULL,
    dropped INTEGER NOT NULL,
    body    TEXT    NOT NULL,
    PRIMARY KEY (task, epoch, no)
) STRICT, WITHOUT ROWID;

-- What other services are told of a change, one row a change, deleted when it is published. Messages for hosts are not
-- written: a task that waits for a host says so in its own row.
CREATE TABLE outbox (
    id         INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    task       TEXT    NOT NULL,
    events     TEXT    NOT NULL,
    change_id  TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    -- Until then a relay has it.
    visible_at INTEGER NOT NULL
) STRICT;

CREATE INDEX outbox_by_change ON outbox (change_id);
CREATE INDEX outbox_by_task ON outbox (task);

CREATE TABLE idempotency (
    tenant      TEXT    NOT NULL,
    key         TEXT    NOT NULL,
    task        TEXT    NOT NULL,
    fingerprint TEXT,
    answer      TEXT,
    expires_at  INTEGER NOT NULL,
    change_id   TEXT    NOT NULL,
    -- The process that receives the request, while it arrives: once the process is gone, the key is free. NULL: unknown.
    owner       TEXT,
    PRIMARY KEY (tenant, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX idempotency_by_task ON idempotency (task);

-- A task whose rows are deleted, until nothing is left of its objects either.
CREATE TABLE tombstones (
    task   TEXT    NOT NULL PRIMARY KEY,
    tenant TEXT    NOT NULL,
    at     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX tombstones_by_age ON tombstones (at, task);

-- Schedules, task types that were disabled, the worker registry and the progress of listings: each a JSON text that the
-- kernel reads and writes, with what the store has to know beside it.
CREATE TABLE documents (
    -- schedule, task_type, worker or listing.
    kind    TEXT    NOT NULL,
    tenant  TEXT    NOT NULL,
    name    TEXT    NOT NULL,
    -- Grows by one with each write; a write names the one that it was decided on.
    rev     INTEGER NOT NULL,
    body    TEXT    NOT NULL,
    -- When something is to be done about it.
    due_at  INTEGER,
    -- Its last write. In no index: a process writes its row every few seconds.
    seen_at INTEGER NOT NULL,
    PRIMARY KEY (kind, tenant, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX documents_due ON documents (kind, due_at, tenant, name) WHERE due_at IS NOT NULL;

-- The latest time that a write of this database has used: SQLite has no clock of its own, and that of the machine may be
-- set back.
CREATE TABLE clock (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    at INTEGER NOT NULL,
    -- The machine's monotonic time at the write that left `at`: a process that starts later can tell time that has passed from
    -- a calendar that was set. Times of two origins (boots, or namespaces) cannot be compared.
    monotonic INTEGER,
    origin TEXT
) STRICT;
INSERT INTO clock (id, at) VALUES (1, 0);
