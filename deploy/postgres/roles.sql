-- Rights of the services. Run it as the owner of the tables (the role that runs `counterstep migrate`), which must be
-- allowed to make roles, after each migration; running it again does no harm:
--
--     psql --set ON_ERROR_STOP=1 --file roles.sql DATABASE
--
-- The services get no right to change the schema, and none to change or delete what the audit says.

BEGIN;

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'counterstep_service') THEN
        -- No password here: set one with `ALTER ROLE … PASSWORD`, or let the server authenticate otherwise.
        CREATE ROLE counterstep_service LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION;
    END IF;
END
$$;

REVOKE CREATE ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO counterstep_service;

-- What is not named below, a later table say, stays out of reach until somebody has thought about it.
REVOKE ALL ON ALL TABLES IN SCHEMA public FROM counterstep_service;
GRANT SELECT, INSERT, UPDATE, DELETE ON tasks, steps, attempts, outbox, poison, idempotency TO counterstep_service;
GRANT SELECT, INSERT ON audit TO counterstep_service;
-- Whether the schema fits the program is looked up when it starts.
GRANT SELECT ON __diesel_schema_migrations TO counterstep_service;
GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO counterstep_service;

COMMIT;
