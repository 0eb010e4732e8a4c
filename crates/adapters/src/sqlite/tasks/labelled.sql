SELECT t.id, t.tenant, t.task_type, t.version, t.status, t.rev, t.failure, t.residue, t.labels, t.created_at, t.updated_at, t.finished_at
    FROM task_labels l CROSS JOIN tasks t ON t.id = l.task
    WHERE l.tenant = ? AND l.name = ? AND l.value = ? AND l.task < ? AND l.task >= ? ORDER BY l.task
