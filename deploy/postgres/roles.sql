-- Roles with no more rights than they need. Run it as an administrator in Counterstep's database: once before the first
-- `counterstep migrate`, and again after every migration, for the tables that it made. Running it twice changes nothing.
--
--   counterstep_owner     owns the tables; for `counterstep migrate` only
--   counterstep_service   api, worker, reconciler: no schema, and of the audit no more than adding and reading
--   counterstep_operator  reads
--
-- They are groups without a login. Make the logins beside them, with passwords or certificates of your own:
--   CREATE ROLE counterstep_api LOGIN PASSWORD '…' IN ROLE counterstep_service;

DO $$
DECLARE
    role TEXT;
BEGIN
    FOREACH role IN ARRAY ARRAY['counterstep_owner', 'counterstep_service', 'counterstep_operator'] LOOP
        -- Roles belong to the whole server: another of its databases may have them already, or be making them now.
        BEGIN
            EXECUTE format('CREATE ROLE %I NOLOGIN', role);
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            NULL;
        END;
    END LOOP;
END
$$;

REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT USAGE, CREATE ON SCHEMA public TO counterstep_owner;
GRANT USAGE ON SCHEMA public TO counterstep_service, counterstep_operator;

DO $$
DECLARE
    made TEXT;
BEGIN
    FOREACH made IN ARRAY ARRAY['tasks', 'steps', 'attempts', 'audit', 'outbox', 'poison', 'idempotency',
                                '__diesel_schema_migrations'] LOOP
        IF to_regclass(made) IS NULL THEN
            CONTINUE;
        END IF;
        -- Also what an administrator migrated before there were roles.
        EXECUTE format('ALTER TABLE %I OWNER TO counterstep_owner', made);
        EXECUTE format('REVOKE ALL ON %I FROM PUBLIC, counterstep_service, counterstep_operator', made);
        EXECUTE format('GRANT SELECT ON %I TO counterstep_service, counterstep_operator', made);
        IF made IN ('tasks', 'steps', 'attempts', 'outbox', 'idempotency') THEN
            EXECUTE format('GRANT INSERT, UPDATE ON %I TO counterstep_service', made);
        ELSIF made IN ('audit', 'poison') THEN
            -- What was written there stays: no UPDATE, no DELETE, no TRUNCATE.
            EXECUTE format('GRANT INSERT ON %I TO counterstep_service', made);
        END IF;
        IF made = 'idempotency' THEN
            -- The key of a request that came to nothing is free again.
            EXECUTE format('GRANT DELETE ON %I TO counterstep_service', made);
        END IF;
    END LOOP;
    IF to_regprocedure('counterstep_refuse(text)') IS NOT NULL THEN
        ALTER FUNCTION counterstep_refuse(TEXT) OWNER TO counterstep_owner;
        REVOKE ALL ON FUNCTION counterstep_refuse(TEXT) FROM PUBLIC;
        GRANT EXECUTE ON FUNCTION counterstep_refuse(TEXT) TO counterstep_service;
    END IF;
END
$$;
