-- Many tasks at once, for tests of what their number costs. The one place outside the store that knows its tables; the
-- store writes its rows by itself. Numbers `first` to `last` of tasks that have ended, the lowest the oldest.

WITH n AS (
    SELECT n, ('01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid AS id,
        CASE WHEN n BETWEEN 60 AND 79 THEN now() - interval '30 seconds' + n * interval '1 millisecond'
             ELSE now() - interval '400 days' + n * interval '1 second' END AS at,
        -- The first hundred are those that a list has to look for: of a rare type, in rare states.
        CASE WHEN n < 10 THEN 'Rare' WHEN n % 3 = 0 THEN 'Transfer' ELSE 'Zip' END AS task_type,
        CASE WHEN n < 20 THEN 'completed' WHEN n < 40 THEN 'dead_lettered' WHEN n < 60 THEN 'compensation_failed'
             WHEN n < 80 THEN 'failed' WHEN n < 100 THEN 'cancelled' WHEN n % 50 = 0 THEN 'failed'
             ELSE 'completed' END AS status,
        CASE WHEN n % 7 = 3 THEN 'other' ELSE 'default' END AS tenant,
        -- One that is a task's own, one of many tasks, and one of all.
        json_build_object('order', n::text, 'customer', (n % 100)::text, 'region', 'eu') AS labels
    FROM generate_series({first}, {last}) AS n
),
t AS (
    INSERT INTO tasks (id, tenant, task_type, version, definition_hash, status, host, queue, rev, epoch,
        recovery_attempts, audit_seq, residue, labels, created_at, updated_at, finished_at, sweep_at, change_id)
    SELECT id, tenant, task_type, 1, 'digest', status, 'worker', 'files', 1, 1, 0, 1, FALSE, labels, at, at,
        CASE WHEN n BETWEEN 20 AND 59 THEN NULL ELSE at END, CASE WHEN n < 5 THEN at END, id
    FROM n
),
l AS (
    INSERT INTO task_labels (tenant, name, value, task)
    SELECT tenant, label.key, label.value, id FROM n CROSS JOIN LATERAL json_each_text(labels) AS label
),
r AS (
    INSERT INTO receives (task, tenant, is_condemned, sweep_at)
    SELECT ('01a00000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, tenant, FALSE,
        -- The first five are overdue; the others still arrive.
        CASE WHEN n < 5 THEN at ELSE now() + interval '1 day' END
    FROM n WHERE n < 5 OR n % 10 = 0
),
b AS (
    INSERT INTO tombstones (task, tenant, at)
    SELECT ('01800000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, tenant, at FROM n WHERE n % 10 = 0
),
e AS (
    INSERT INTO journal (task, rev, epoch, at, change_id, actor, form, entries, link, seal)
    SELECT id, 1, 1, at, id, 'api:1', 1, '{"events":[{"event":"submitted","seq":1,"from":null}],'
        -- The first five have something for a sweep.
        || '"attempts":[{"start":{"step":1,"attempt":1,"sweep_after":0}}'
        || CASE WHEN n < 5 THEN '' ELSE ',{"end":{"step":1,"attempt":1,"outcome":"succeeded","kept":"output"}}' END
        || '],"steps":[{"no":1,"name":"one","status":"completed","attempts":1}]}', '\x00', '\x00' FROM n
),
k AS (
    INSERT INTO idempotency (tenant, key, task, expires_at, change_id)
    SELECT tenant, 'key-' || n, id, at, id FROM n WHERE n % 10 = 0
)
INSERT INTO outbox (task, events, change_id, created_at, visible_at)
SELECT id, '[]', id, at, at FROM n WHERE n BETWEEN 60 AND 79;
