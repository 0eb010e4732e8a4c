-- A task whose rows are deleted, until nothing is left of its objects either.
CREATE TABLE tombstones (
    task   UUID        NOT NULL PRIMARY KEY,
    tenant TEXT        NOT NULL COLLATE "C",
    at     TIMESTAMPTZ NOT NULL
);

CREATE INDEX tombstones_by_age ON tombstones (at, task);
-- To be found with their task when it is deleted.
CREATE INDEX outbox_by_task ON outbox (task);
CREATE INDEX idempotency_by_task ON idempotency (task);
