-- Lists, of one tenant each: state by state, newest first, with a type or without. NULLS LAST sets their order apart from
-- that of the key, so that no other index can serve a list.
CREATE INDEX tasks_of_tenant ON tasks (tenant, status, id DESC NULLS LAST);
CREATE INDEX tasks_of_type ON tasks (tenant, task_type, status, id DESC NULLS LAST);
-- Counts: tasks that have ended are in none of them, and are most of the table.
CREATE INDEX tasks_open ON tasks (status, id) WHERE status NOT IN ('completed', 'failed', 'cancelled', 'resolved');
DROP INDEX tasks_by_status, tasks_by_type, tasks_by_tenant;
-- Tasks that retention takes, in its whole order: by time alone the server sorts all that have ended.
DROP INDEX tasks_ended;
CREATE INDEX tasks_ended ON tasks (task_type, status, finished_at, id) WHERE finished_at IS NOT NULL;

-- Without a key of its own a table cannot be published: a publication for all tables would refuse every deletion. The task
-- comes first: so its rows are found with it when it is deleted, and the relay, who goes by id, does not take this index
-- for its own.
ALTER TABLE outbox ADD PRIMARY KEY (task, id);
DROP INDEX outbox_by_task;
