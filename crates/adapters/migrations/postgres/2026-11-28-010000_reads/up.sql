-- Lists, of one tenant each: state by state, newest first, with a type or without.
CREATE INDEX tasks_of_tenant ON tasks (tenant, status, id);
CREATE INDEX tasks_of_type ON tasks (tenant, task_type, status, id);
-- Counts: tasks that have ended are in none of them, and are most of the table.
CREATE INDEX tasks_open ON tasks (status, id) WHERE status NOT IN ('completed', 'failed', 'cancelled', 'resolved');
DROP INDEX tasks_by_status, tasks_by_type, tasks_by_tenant;

-- Without a key of its own a table cannot be published: a publication for all tables would refuse every mark. The task
-- comes first: so its rows are found with it when it is deleted, and the relay, who goes by id, does not take this index
-- for its own.
ALTER TABLE outbox ADD PRIMARY KEY (task, id);
DROP INDEX outbox_by_task;
