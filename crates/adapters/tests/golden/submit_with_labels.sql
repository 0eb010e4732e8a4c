WITH limits AS MATERIALIZED (SELECT set_config('lock_timeout', $1, true) AS lock), t AS (INSERT INTO tasks (
    id, tenant, task_type, version, definition_hash, traceparent, labels,
    change_id, created_at, updated_at, rev, status, waiting, host, queue, epoch, lease_owner, lease_expires_at,
    due_at, deadline_at, cancel_requested_at, finished_at, goal, recovery_attempts, audit_seq,
    failure, residue, unclaimed_since, audit_seal, sweep_at)
  SELECT u.id, u.tenant, u.task_type, u.version, u.definition_hash, u.traceparent, u.labels::json,
    u.change_id, now(), now(), u.rev, u.status, u.waiting, u.host, u.queue, u.epoch, u.lease_owner, now() + u.ttl,
    now() + u.due, now() + u.deadline, now() + u.cancel, now() + u.finished, u.goal, u.recovery_attempts,
    u.audit_seq, u.failure, u.residue, CASE WHEN u.claimable THEN now() END,
    sha256(u.audit_link || timestamptz_send(now())), u.sweep_at
  FROM limits, (VALUES ($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29)) AS u (id, tenant, task_type, version, definition_hash, traceparent, labels,
    change_id, rev, status, waiting, host, queue, epoch, lease_owner, ttl, due, deadline, cancel, finished, goal,
    recovery_attempts, audit_seq, failure, residue, claimable, audit_link, sweep_at)
  WHERE limits.lock IS NOT NULL
  ON CONFLICT (id) DO NOTHING
  RETURNING id), labels_added AS (INSERT INTO task_labels (tenant, name, value, task)
  SELECT u.tenant, l.key, l.value, t.id FROM t JOIN (VALUES ($30, $31, $32)) AS u (id, tenant, labels) ON u.id = t.id
  CROSS JOIN LATERAL json_each_text(u.labels::json) AS l (key, value)), ok AS MATERIALIZED (SELECT count(*) AS held, count(*) = $33 AS every FROM t), journal_added AS (INSERT INTO journal
    (task, rev, epoch, at, change_id, actor, form, entries, data, link, seal)
  SELECT u.task, u.rev, u.epoch, now(), u.change_id, u.actor, u.form, u.entries, u.data, u.link,
     sha256(u.link || timestamptz_send(now()))
  FROM ok, (VALUES ($34, $35, $36, $37, $38, $39, $40, $41, $42)) AS u (task, change_id, rev, epoch, actor, form, entries, data, link) WHERE ok.every) SELECT now(), NULL::uuid FROM ok WHERE CASE WHEN ok.every THEN TRUE WHEN ok.held = 0 THEN FALSE ELSE counterstep_refuse('guards') END
