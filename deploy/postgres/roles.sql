-- Rights of the services and of people who look. Run it as the owner of the tables (the role that runs
-- `counterstep migrate`, and nothing else), which must be allowed to make roles, after each migration; running it again
-- does no harm:
--
--     psql --set ON_ERROR_STOP=1 --file roles.sql DATABASE
--
-- One role for each kind of process. None may change the schema, nor change or delete what the audit says, and none can do
-- more than its work:
--
--   counterstep_api         the API, and `counterstep keys`: submissions, uploads, schedules, API keys, webhooks
--   counterstep_worker      the workers: neither API keys, nor idempotency keys with their answers, nor uploads that arrive
--   counterstep_reconciler  the reconciler: deletes tasks whose time is over, with all that the audit says of them, and
--                           rewrites none of it; no API keys
--   counterstep_service     for a program that is API and worker in one process: what both may
--   counterstep_operator    people who look: reads all but API keys, for `audit`, `fsck`, `check-deploy` and `doctor`
--   counterstep_eraser      calls counterstep_erase, and can write nothing else
--   counterstep_submitter   submits tasks in transactions of an application's own, and reads of them their ids alone; it
--                           reads idempotency keys and the answers to them. Grant it to the role of the application, and give
--                           that role a tenant where it has one: `ALTER ROLE shop SET counterstep.tenant = 'acme'`

BEGIN;

DO $$
DECLARE
    role TEXT;
BEGIN
    FOREACH role IN ARRAY ARRAY['counterstep_api', 'counterstep_worker', 'counterstep_reconciler', 'counterstep_service',
        'counterstep_operator', 'counterstep_eraser', 'counterstep_submitter'] LOOP
        -- No password here: set one with `ALTER ROLE … PASSWORD`, or let the server authenticate otherwise.
        BEGIN
            IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN
                EXECUTE format('CREATE ROLE %I LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION', role);
            END IF;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            -- Roles belong to the whole server: this file was run in another of its databases at the same moment.
            NULL;
        END;
    END LOOP;
END
$$;

-- What each session of theirs begins with. A program that connects directly asks for the same by itself; behind a pooler
-- in transaction mode it cannot. Every statement walks an index from the keys at hand, by one plan for all values.
DO $$
DECLARE
    role TEXT;
    setting TEXT;
BEGIN
    FOREACH role IN ARRAY ARRAY['counterstep_api', 'counterstep_worker', 'counterstep_reconciler', 'counterstep_service'] LOOP
        FOREACH setting IN ARRAY ARRAY[
            'statement_timeout=15000', 'lock_timeout=5000', 'idle_in_transaction_session_timeout=30000',
            'timezone=UTC', 'plan_cache_mode=force_generic_plan', 'jit=off', 'enable_seqscan=off',
            'enable_hashjoin=off', 'enable_mergejoin=off', 'enable_bitmapscan=off', 'max_parallel_workers_per_gather=0'
        ] LOOP
            EXECUTE format('ALTER ROLE %I SET %s', role, setting);
        END LOOP;
    END LOOP;
END
$$;

REVOKE CREATE ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO counterstep_api, counterstep_worker, counterstep_reconciler, counterstep_service,
    counterstep_operator, counterstep_eraser, counterstep_submitter;
-- Earlier versions of this file made the reconciler a member.
DO $$
BEGIN
    IF pg_has_role('counterstep_reconciler', 'counterstep_service', 'MEMBER') THEN
        REVOKE counterstep_service FROM counterstep_reconciler;
    END IF;
END
$$;

-- What is not named below, a later table say, stays out of reach until a grant for it is added here.
REVOKE ALL ON ALL TABLES IN SCHEMA public
    FROM counterstep_api, counterstep_worker, counterstep_reconciler, counterstep_service, counterstep_operator,
    counterstep_eraser, counterstep_submitter;
-- Whether the schema fits the program is looked up when it starts.
GRANT SELECT ON __diesel_schema_migrations
    TO counterstep_api, counterstep_worker, counterstep_reconciler, counterstep_service, counterstep_operator;
-- Clients submit tasks at the API, steps of workers submit tasks of their own, and schedules fire in the reconciler. What was
-- written of them stays.
GRANT SELECT, INSERT, UPDATE ON tasks
    TO counterstep_api, counterstep_worker, counterstep_reconciler, counterstep_service;
GRANT SELECT, INSERT ON journal, task_labels, children
    TO counterstep_api, counterstep_worker, counterstep_reconciler, counterstep_service;
-- What steps log. It is bounded, so the oldest lines go.
GRANT SELECT, INSERT, DELETE ON task_logs TO counterstep_api, counterstep_worker, counterstep_service;
GRANT SELECT, DELETE ON task_logs TO counterstep_reconciler;
-- Tasks that are counted, until they are at rest; and events that are published leave the outbox.
GRANT SELECT, INSERT, UPDATE, DELETE ON places, outbox
    TO counterstep_api, counterstep_worker, counterstep_reconciler, counterstep_service;
-- Which rows of it, the policies below say.
GRANT SELECT, INSERT, UPDATE, DELETE ON documents
    TO counterstep_api, counterstep_worker, counterstep_reconciler, counterstep_service;
-- A submission takes its files over, or a sweep deletes them. The key of a request that came to nothing is free again.
GRANT SELECT, INSERT, UPDATE, DELETE ON receives, idempotency
    TO counterstep_api, counterstep_reconciler, counterstep_service;
-- Tasks whose time is over, and what is left of them until their objects are gone.
GRANT DELETE ON tasks, journal, task_labels, children TO counterstep_reconciler;
GRANT SELECT, INSERT, DELETE ON tombstones TO counterstep_reconciler;
GRANT SELECT ON tombstones TO counterstep_service;
GRANT SELECT ON tasks, task_labels, children, places, receives, outbox, idempotency, documents, journal, task_logs, tombstones
    TO counterstep_operator;

-- Documents are rows of several kinds. API keys are for the API alone; of the others each process writes those of its work:
-- its entry in the worker registry, webhooks of tasks that come to rest, task types that are disabled for their failures, what
-- it holds of limits.
ALTER TABLE documents ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS counterstep_all ON documents;
CREATE POLICY counterstep_all ON documents TO counterstep_api, counterstep_service USING (true) WITH CHECK (true);
DROP POLICY IF EXISTS counterstep_read ON documents;
CREATE POLICY counterstep_read ON documents FOR SELECT
    TO counterstep_worker, counterstep_reconciler, counterstep_operator USING (kind <> 'api_key');
DROP POLICY IF EXISTS counterstep_work ON documents;
CREATE POLICY counterstep_work ON documents TO counterstep_worker
    USING (kind IN ('worker', 'webhook', 'task_type', 'limit')) WITH CHECK (kind IN ('worker', 'webhook', 'task_type', 'limit'));
DROP POLICY IF EXISTS counterstep_upkeep ON documents;
CREATE POLICY counterstep_upkeep ON documents TO counterstep_reconciler
    USING (kind IN ('worker', 'webhook', 'task_type', 'limit', 'schedule', 'listing'))
    WITH CHECK (kind IN ('worker', 'webhook', 'task_type', 'limit', 'schedule', 'listing'));
-- Who consumes a queue keeps the messages that it cannot act on; people look at them by the API.
DROP POLICY IF EXISTS counterstep_poison ON documents;
CREATE POLICY counterstep_poison ON documents FOR INSERT TO counterstep_worker WITH CHECK (kind = 'poison');
-- The audit of changes beside tasks: all who disable a type or declare a schedule add to it; no service changes an entry.
DROP POLICY IF EXISTS counterstep_audit ON documents;
CREATE POLICY counterstep_audit ON documents FOR INSERT TO counterstep_worker, counterstep_reconciler WITH CHECK (kind = 'audit');
DROP POLICY IF EXISTS counterstep_audit_end ON documents;
CREATE POLICY counterstep_audit_end ON documents FOR UPDATE
    TO counterstep_worker, counterstep_reconciler USING (kind = 'audit') WITH CHECK (kind = 'audit');
DROP POLICY IF EXISTS counterstep_audit_stays ON documents;
CREATE POLICY counterstep_audit_stays ON documents AS RESTRICTIVE FOR UPDATE
    TO counterstep_api, counterstep_worker, counterstep_reconciler, counterstep_service USING (kind <> 'audit' OR name = 'tip');
DROP POLICY IF EXISTS counterstep_audit_is_kept ON documents;
CREATE POLICY counterstep_audit_is_kept ON documents AS RESTRICTIVE FOR DELETE
    TO counterstep_api, counterstep_worker, counterstep_reconciler, counterstep_service USING (kind <> 'audit');

-- Tables of the program's own, which its steps write with `in_transaction`: `counterstep deploy render` writes them from what the program
-- declares with `.table(..)`. One that is not there yet is left out: run this file again when it is.
DO $$
DECLARE
    own RECORD;
    sequence REGCLASS;
BEGIN
    FOR own IN SELECT * FROM (VALUES
        -- rendered: tables of the program
        -- end of rendered
        (NULL, NULL)) AS declared (name, rights) WHERE name IS NOT NULL LOOP
        IF to_regclass(own.name) IS NULL THEN
            RAISE WARNING 'there is no table %, so nothing is granted on it: run this file again when it is there', own.name;
            CONTINUE;
        END IF;
        EXECUTE format('GRANT %s ON %s TO counterstep_api, counterstep_worker, counterstep_service', own.rights, own.name);
        -- A column that a sequence fills, as one of the type BIGSERIAL, wants a right to that too.
        FOR sequence IN SELECT s.oid::regclass FROM pg_depend d JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S'
            WHERE d.classid = 'pg_class'::regclass AND d.refobjid = to_regclass(own.name) AND d.deptype = 'a' LOOP
            EXECUTE format('GRANT USAGE ON SEQUENCE %s TO counterstep_api, counterstep_worker, counterstep_service', sequence);
        END LOOP;
    END LOOP;
END
$$;

GRANT SELECT ON tasks TO counterstep_eraser;
-- What the statement of a submission inserts. It reads back which id was new, and writes over a key whose time is over: for
-- that the server wants these rights, whether there is such a row or not.
GRANT INSERT ON tasks, task_labels, places, journal, outbox, idempotency TO counterstep_submitter;
GRANT SELECT (id) ON tasks TO counterstep_submitter;
GRANT SELECT ON idempotency TO counterstep_submitter;
GRANT UPDATE (task, fingerprint, answer, expires_at, change_id, owner) ON idempotency TO counterstep_submitter;
-- The tenant that `ALTER ROLE shop SET counterstep.tenant = 'acme'` names for the role that has connected. From the catalogue: a session
-- may set the parameter itself.
CREATE OR REPLACE FUNCTION counterstep_tenant_of_role() RETURNS TEXT
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT split_part(setting, '=', 2) FROM pg_db_role_setting s JOIN pg_roles r ON r.oid = s.setrole, unnest(s.setconfig) AS setting
    WHERE r.rolname = session_user AND setting LIKE 'counterstep.tenant=%'
      AND s.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
    ORDER BY s.setdatabase DESC LIMIT 1
$$;
-- Whether a row beside a task is of one that this transaction submits. Its time is that of the begin of the transaction, to the
-- microsecond; a task of another transaction has the same by chance alone. VOLATILE, so that it sees what the statement itself has
-- inserted; with the rights of its owner, as the submitter may not read tasks.
CREATE OR REPLACE FUNCTION counterstep_submits(submitted UUID, under_tenant TEXT DEFAULT NULL, under_type TEXT DEFAULT NULL)
    RETURNS BOOLEAN LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM tasks WHERE tasks.id = submitted AND tasks.rev = 1 AND tasks.created_at = now()
        AND tasks.tenant = COALESCE(counterstep_tenant_of_role(), tasks.tenant)
        AND tasks.tenant = COALESCE(under_tenant, tasks.tenant) AND tasks.task_type = COALESCE(under_type, tasks.task_type));
END
$$;
REVOKE ALL ON FUNCTION counterstep_submits(UUID, TEXT, TEXT) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION counterstep_submits(UUID, TEXT, TEXT) TO counterstep_submitter;
-- Of a right to insert, what a submission inserts: a task that no process has, of the tenant of the role alone where it has one,
-- and rows of that task; and a key that is free. Nothing is added for the other roles.
DO $$
DECLARE
    of_tenant CONSTANT TEXT := 'tenant = COALESCE((SELECT counterstep_tenant_of_role()), tenant)';
    of_key CONSTANT TEXT := 'expires_at <= now() AND ' || of_tenant;
    policy RECORD;
BEGIN
    FOR policy IN SELECT * FROM (VALUES
        ('tasks', $rule$INSERT WITH CHECK (rev = 1 AND epoch = 0 AND lease_owner IS NULL AND lease_expires_at IS NULL
            AND status IN ('submitted', 'dispatched', 'waiting', 'completed') AND host IN ('api', 'worker') AND recovery_attempts = 0
            AND (status = 'completed') = (finished_at IS NOT NULL) AND COALESCE(finished_at = now(), true)
            AND cancel_requested_at IS NULL AND failure IS NULL AND NOT residue AND held_until IS NULL AND created_at = now() AND $rule$ || of_tenant || ')'),
        ('task_labels', 'INSERT WITH CHECK (counterstep_submits(task, tenant))'),
        ('journal', 'INSERT WITH CHECK (rev = 1 AND counterstep_submits(task))'),
        ('places', $rule$INSERT WITH CHECK (no IS NULL AND saw IS NULL AND created_at = now() AND entered_in = pg_current_xact_id()
            AND counterstep_submits(task, NULLIF(split_part(key, '/', 2), ''), split_part(key, '/', 1)))$rule$),
        ('outbox', $rule$INSERT WITH CHECK (counterstep_submits(task) AND NOT EXISTS (SELECT FROM json_array_elements(events::json) AS event
            WHERE event ->> 'task' IS DISTINCT FROM task::text
               OR NOT COALESCE(counterstep_submits(task, event ->> 'tenant', event ->> 'task_type'), false)))$rule$),
        ('idempotency', 'SELECT USING (' || of_tenant || ')'),
        ('idempotency', 'INSERT WITH CHECK (' || of_tenant || ')'),
        ('idempotency', 'UPDATE USING (' || of_key || ') WITH CHECK (' || of_tenant || ')')) AS wanted (name, rule) LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', policy.name);
        EXECUTE format('DROP POLICY IF EXISTS counterstep_all ON %I', policy.name);
        EXECUTE format('CREATE POLICY counterstep_all ON %I USING (true) WITH CHECK (true)', policy.name);
        EXECUTE format('DROP POLICY IF EXISTS counterstep_submit_%s ON %I', lower(split_part(policy.rule, ' ', 1)), policy.name);
        EXECUTE format('CREATE POLICY counterstep_submit_%s ON %I AS RESTRICTIVE FOR %s',
            lower(split_part(policy.rule, ' ', 1)), policy.name,
            regexp_replace(policy.rule, '^(\w+)', '\1 TO counterstep_submitter'));
    END LOOP;
END
$$;
-- Erases what clients and steps handed in for a task that has ended, and what its steps logged; returns the number of rows of
-- the journal that had some. The digests of
-- the data stay in the chain. Nothing goes of a task below another one that has not ended: that one may have to undo it, with
-- what it was given. It runs with the rights of its owner, who is the owner of the tables.
CREATE OR REPLACE FUNCTION counterstep_erase(task UUID) RETURNS BIGINT
    LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    WITH RECURSIVE above (task) AS (
        SELECT parent FROM children WHERE children.task = $1
        UNION SELECT children.parent FROM above JOIN children ON children.task = above.task),
    ended AS (
        SELECT tasks.id FROM tasks WHERE tasks.id = $1 AND tasks.finished_at IS NOT NULL AND NOT EXISTS (
            SELECT FROM above JOIN tasks parents ON parents.id = above.task
            WHERE parents.status NOT IN ('completed', 'failed', 'cancelled', 'resolved'))),
    erased AS (
        UPDATE journal SET data = NULL FROM ended
        WHERE journal.task = ended.id AND journal.data IS NOT NULL
        RETURNING 1),
    gone AS (
        DELETE FROM task_logs USING ended WHERE task_logs.task = ended.id)
    SELECT count(*) FROM erased
$$;
REVOKE ALL ON FUNCTION counterstep_erase(UUID) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION counterstep_erase(UUID) TO counterstep_eraser;
-- By default everybody may call a function; this one only ever fails.
REVOKE ALL ON FUNCTION counterstep_refuse(TEXT) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION counterstep_refuse(TEXT)
    TO counterstep_api, counterstep_worker, counterstep_reconciler, counterstep_service, counterstep_submitter;

COMMIT;
