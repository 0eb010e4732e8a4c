-- Rights of the services and of people who look. Run it as the owner of the tables (the role that runs
-- `counterstep migrate`, and nothing else), which must be allowed to make roles, after each migration; running it again
-- does no harm:
--
--     psql --set ON_ERROR_STOP=1 --file roles.sql DATABASE
--
-- counterstep_service: api, worker, and a reconciler without retention. No right to change the schema, and none to change
-- or delete what the audit says. counterstep_reconciler: a reconciler with retention; it may also delete tasks, with all that
-- the audit says of them, and rewrite none of it. counterstep_operator: reads, which is what `counterstep audit`
-- and `counterstep fsck` need. counterstep_eraser: calls counterstep_erase, and can write nothing else. counterstep_submitter:
-- submits tasks in transactions of an application's own, and reads of them their ids alone; it reads all idempotency keys and
-- the answers to them. Grant it to the role of the application.

BEGIN;

DO $$
DECLARE
    role TEXT;
BEGIN
    FOREACH role IN ARRAY ARRAY['counterstep_service', 'counterstep_reconciler', 'counterstep_operator', 'counterstep_eraser',
        'counterstep_submitter'] LOOP
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
    FOREACH role IN ARRAY ARRAY['counterstep_service', 'counterstep_reconciler'] LOOP
        FOREACH setting IN ARRAY ARRAY[
            'statement_timeout=15000', 'lock_timeout=5000', 'idle_in_transaction_session_timeout=30000',
            'timezone=UTC', 'plan_cache_mode=force_generic_plan', 'jit=off', 'enable_seqscan=off',
            'enable_hashjoin=off', 'enable_mergejoin=off', 'enable_bitmapscan=off'
        ] LOOP
            EXECUTE format('ALTER ROLE %I SET %s', role, setting);
        END LOOP;
    END LOOP;
END
$$;

REVOKE CREATE ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public
    TO counterstep_service, counterstep_reconciler, counterstep_operator, counterstep_eraser, counterstep_submitter;
-- A reconciler may do what the other services may, and what follows below.
GRANT counterstep_service TO counterstep_reconciler;

-- What is not named below, a later table say, stays out of reach until a grant for it is added here.
REVOKE ALL ON ALL TABLES IN SCHEMA public
    FROM counterstep_service, counterstep_reconciler, counterstep_operator, counterstep_eraser, counterstep_submitter;
GRANT SELECT, INSERT, UPDATE ON tasks TO counterstep_service;
-- A submission takes its files over, or a sweep deletes them.
GRANT SELECT, INSERT, UPDATE, DELETE ON receives TO counterstep_service;
-- The key of a request that came to nothing is free again; events that are published leave the outbox.
GRANT SELECT, INSERT, UPDATE, DELETE ON idempotency, outbox TO counterstep_service;
-- Schedules are deleted by people, and processes are forgotten a day after they were seen last.
GRANT SELECT, INSERT, UPDATE, DELETE ON documents TO counterstep_service;
-- What was written there stays.
GRANT SELECT, INSERT ON journal, poison, task_labels, children TO counterstep_service;
-- What a sweep finds there is being deleted.
GRANT SELECT ON tombstones TO counterstep_service;
-- Tasks whose time is over, and what is left of them until their objects are gone.
GRANT DELETE ON tasks, journal, task_labels, children TO counterstep_reconciler;
GRANT INSERT, DELETE ON tombstones TO counterstep_reconciler;
-- Whether the schema fits the program is looked up when it starts.
GRANT SELECT ON __diesel_schema_migrations TO counterstep_service;
GRANT SELECT ON tasks, task_labels, children, receives, outbox, idempotency, documents, journal, poison, tombstones,
    __diesel_schema_migrations
    TO counterstep_operator;
GRANT SELECT ON tasks TO counterstep_eraser;
-- What the statement of a submission inserts. It reads back which id was new, and writes over a key whose time is over: for
-- that the server wants these rights, whether there is such a row or not.
GRANT INSERT ON tasks, task_labels, journal, outbox, idempotency TO counterstep_submitter;
GRANT SELECT (id) ON tasks TO counterstep_submitter;
GRANT SELECT ON idempotency TO counterstep_submitter;
GRANT UPDATE (task, fingerprint, answer, expires_at, change_id, owner) ON idempotency TO counterstep_submitter;
-- Erases what clients and steps handed in for a task that has ended; returns the number of rows that had some. The digests of
-- the data stay in the chain. It runs with the rights of its owner, who is the owner of the tables.
CREATE OR REPLACE FUNCTION counterstep_erase(task UUID) RETURNS BIGINT
    LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    WITH erased AS (
        UPDATE journal SET data = NULL FROM tasks
        WHERE tasks.id = $1 AND tasks.finished_at IS NOT NULL AND journal.task = $1 AND journal.data IS NOT NULL
        RETURNING 1)
    SELECT count(*) FROM erased
$$;
REVOKE ALL ON FUNCTION counterstep_erase(UUID) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION counterstep_erase(UUID) TO counterstep_eraser;
-- By default everybody may call a function; this one only ever fails.
REVOKE ALL ON FUNCTION counterstep_refuse(TEXT) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION counterstep_refuse(TEXT) TO counterstep_service, counterstep_submitter;

COMMIT;
