WITH limits AS MATERIALIZED (SELECT set_config('lock_timeout', $1, true) AS lock), t AS (UPDATE tasks SET
    change_id = u.change_id, updated_at = CASE WHEN u.is_quiet THEN tasks.updated_at ELSE now() END, rev = u.rev, status = u.status, waiting = u.waiting, host = u.host,
    queue = u.queue, epoch = u.epoch,
    lease_owner = CASE WHEN u.lease_stays THEN tasks.lease_owner ELSE u.lease_owner END,
    lease_expires_at = CASE WHEN u.lease_stays THEN tasks.lease_expires_at ELSE now() + u.ttl END,
    due_at = CASE WHEN u.due_stays THEN tasks.due_at ELSE now() + u.due END,
    deadline_at = CASE WHEN u.deadline_stays THEN tasks.deadline_at ELSE now() + u.deadline END,
    cancel_requested_at = coalesce(tasks.cancel_requested_at, now() + u.cancel),
    finished_at = CASE WHEN u.finished_stays THEN tasks.finished_at ELSE now() + u.finished END,
    goal = u.goal, recovery_attempts = u.recovery_attempts, audit_seq = u.audit_seq,
    audit_seal = coalesce(sha256(u.audit_link || timestamptz_send(now())), tasks.audit_seal),
    failure = u.failure, residue = u.residue, sweep_at = u.sweep_at,
    unclaimed_since = CASE WHEN u.is_quiet THEN tasks.unclaimed_since WHEN u.claimable AND (NOT u.lease_stays OR tasks.lease_owner IS NULL)
      AND (NOT u.undo_due_stays OR tasks.due_at IS NULL) THEN now() END
  FROM limits, (VALUES ($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37)) AS u (id, guard_rev, guard_epoch, must_be_free, must_be_expired,
    change_id, rev, status, waiting, host, queue, epoch, lease_stays, lease_owner, ttl, due_stays, due, deadline_stays,
    deadline, cancel, finished_stays, finished, goal, recovery_attempts, audit_seq, failure,
    residue, claimable, audit_link, undo_due_stays, sweep_at, is_quiet, actor, form, entries, data)
  WHERE limits.lock IS NOT NULL AND tasks.id = u.id AND tasks.rev = u.guard_rev AND tasks.epoch = coalesce(u.guard_epoch, tasks.epoch)
    AND (NOT u.must_be_free OR tasks.lease_owner IS NULL OR tasks.lease_expires_at <= now())
    AND (NOT u.must_be_expired OR tasks.lease_expires_at <= now())
  RETURNING tasks.id, tasks.rev, tasks.epoch, tasks.change_id, tasks.audit_seal, u.actor, u.form, u.entries, u.data,
    u.audit_link), journal_added AS (INSERT INTO journal
    (task, rev, epoch, at, change_id, actor, form, entries, data, link, seal)
  SELECT t.id, t.rev, t.epoch, now(), t.change_id, t.actor, t.form, t.entries, t.data, t.audit_link, t.audit_seal FROM t) SELECT now(), t.id FROM t
