-- Lists of a type in a state, newest first.
CREATE INDEX tasks_by_type_and_status ON tasks (task_type, status, id);
