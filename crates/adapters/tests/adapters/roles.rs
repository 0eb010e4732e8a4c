//! The rights that `deploy/postgres/roles.sql` gives the services: enough for the work, and no
//! more.

use crate::suite::{
    chain as suite_of_chains, children as suite_of_children, commits as suite_of_commits,
    own_tables as suite_of_own_tables, places as suite_of_places,
};
use crate::{embedded, postgres};
use counterstep_adapters::postgres::PostgresStore;
use counterstep_kernel::ports::Ports;
use counterstep_reconciler::audit::Scope;
use counterstep_steps::Sql;
use counterstep_testkit::servers::shared_postgres;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

const ROLES: &str = include_str!("../../../../deploy/postgres/roles.sql");

/// A migrated database with its roles, the ports of a service on it, and the service's URL.
async fn as_a_service() -> (embedded::Fixture, Ports, String) {
    with_the_role("counterstep_service").await
}

fn run_roles(owner: &str, text: &str) {
    // Roles belong to the server and not to a database: PostgreSQL refuses two sessions that
    // alter one at a time.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock();
    shared_postgres().run_sql(owner, text).unwrap();
}

/// A migrated database with its roles.
async fn with_roles() -> String {
    let owner = postgres::database().await;
    // As after each migration: once more does no harm.
    run_roles(&owner, ROLES);
    run_roles(&owner, ROLES);
    owner
}

/// The same with another role.
async fn with_the_role(role: &str) -> (embedded::Fixture, Ports, String) {
    static WITH_ROLES: OnceCell<String> = OnceCell::const_new();
    let owner = postgres::copy(WITH_ROLES.get_or_init(with_roles).await).await;
    let service = owner.replacen("postgres@", &format!("{role}@"), 1);
    let store = PostgresStore::open(&service, postgres::options())
        .await
        .expect("a store");
    let embedded = embedded::fixture().await;
    let ports = Ports {
        store: store.into(),
        ..embedded.ports.clone()
    };
    (embedded, ports, service)
}

/// Ports of a service, and what must live as long as they do.
struct Service {
    ports: Ports,
    _embedded: embedded::Fixture,
}

async fn service() -> Service {
    let (embedded, ports, _) = as_a_service().await;
    Service {
        ports,
        _embedded: embedded,
    }
}

// Everything that a store is for can be done with the rights of a service.
crate::row_cases!(crate::roles::service);

async fn reconciler() -> Service {
    let (embedded, ports, _) = with_the_role("counterstep_reconciler").await;
    Service {
        ports,
        _embedded: embedded,
    }
}

// And tasks are deleted with those of a reconciler.
crate::purge_cases!(crate::roles::reconciler);

/// Documents of kinds that processes other than the API must not change, or see.
const DOCUMENTS: &str = "INSERT INTO documents (kind, tenant, name, rev, body, seen_at) VALUES
    ('api_key', 'default', 'planted', 1, '{}', now()), ('schedule', 'default', 'planted', 1, '{}', now()),
    ('poison', 'default', 'planted', 1, '{}', now()), ('audit', 'default', '00000000000000000001', 1, '{}', now())";

/// An entry of the audit of changes: row security leaves it out, which is no error by itself.
const CHANGED: &str =
    "DO $$ BEGIN UPDATE documents SET body = 'x' WHERE kind = 'audit' AND name <> 'tip';
    IF NOT FOUND THEN RAISE EXCEPTION 'nothing was changed'; END IF; END $$";
const DELETED: &str = "DO $$ BEGIN DELETE FROM documents WHERE kind = 'audit';
    IF NOT FOUND THEN RAISE EXCEPTION 'nothing was deleted'; END IF; END $$";

#[tokio::test]
async fn no_role_can_do_more_than_its_work() {
    let (_folder, ports, service) = as_a_service().await;
    suite_of_commits::a_record_comes_back_as_it_was_written(&ports).await;
    let server = shared_postgres();
    let owner = service.replacen("counterstep_service@", "postgres@", 1);
    server.run_sql(&owner, DOCUMENTS).unwrap();
    let as_role = |role: &str, statement: &str| {
        let url = service.replacen("counterstep_service@", &format!("counterstep_{role}@"), 1);
        server.run_sql(&url, statement)
    };
    let of_all = [
        CHANGED,
        DELETED,
        "UPDATE journal SET task = task",
        "UPDATE task_logs SET dropped = 0",
        "TRUNCATE journal",
        "TRUNCATE tasks",
        "ALTER TABLE journal DISABLE TRIGGER ALL",
        "ALTER TABLE documents DISABLE ROW LEVEL SECURITY",
        "DROP POLICY counterstep_all ON documents",
        "DROP TABLE journal",
        "CREATE TABLE mine ()",
        "DELETE FROM __diesel_schema_migrations",
        "CREATE ROLE more SUPERUSER",
        "SET ROLE postgres",
        "SELECT counterstep_erase('01890000-0000-7000-8000-000000000000')",
    ];
    let delete = [
        "DELETE FROM journal",
        "DELETE FROM tasks",
        "DELETE FROM children",
        "DELETE FROM task_labels",
        "INSERT INTO tombstones VALUES ('01890000-0000-7000-8000-000000000000', 'default', now())",
    ];
    let key = "INSERT INTO documents (kind, tenant, name, rev, body, seen_at) VALUES ('api_key', 'default', 'own', 1, '{}', now())";
    let schedule = "INSERT INTO documents (kind, tenant, name, rev, body, seen_at) VALUES ('schedule', 'default', 'own', 1, '{}', now())";
    let poison = "INSERT INTO documents (kind, tenant, name, rev, body, seen_at) VALUES ('poison', 'default', 'own', 1, '{}', now())";
    let of_a_worker = [
        key,
        schedule,
        "SELECT * FROM idempotency",
        "DELETE FROM idempotency",
        "SELECT * FROM receives",
        "UPDATE receives SET is_condemned = TRUE",
        "SELECT * FROM tombstones",
        "SET ROLE counterstep_api",
    ];
    let of_a_reconciler = [key, poison, "SET ROLE counterstep_service"];
    let of_an_operator = [
        "UPDATE tasks SET status = status",
        "INSERT INTO journal SELECT * FROM journal",
        "INSERT INTO documents SELECT * FROM documents",
        "DELETE FROM outbox",
    ];
    for (role, more) in [
        ("api", &delete[..]),
        ("service", &delete),
        ("worker", &delete),
        ("worker", &of_a_worker),
        ("reconciler", &of_a_reconciler),
        ("operator", &delete),
        ("operator", &of_an_operator),
    ] {
        for statement in of_all.iter().chain(more) {
            let error = as_role(role, statement).expect_err(statement);
            let refused = [
                "permission denied",
                "must be",
                "row-level security",
                "nothing was",
            ];
            assert!(
                refused.iter().any(|text| error.contains(text)),
                "{role}: {statement}: {error}"
            );
        }
    }
    // What is not there for a role is not refused: it finds none, and changes none.
    let count = |kind: &str, count: usize| {
        format!(
            "DO $$ BEGIN IF (SELECT count(*) FROM documents WHERE kind = '{kind}') <> {count} THEN \
             RAISE EXCEPTION 'not {count}'; END IF; END $$"
        )
    };
    for (role, keys) in [
        ("api", 1),
        ("service", 1),
        ("worker", 0),
        ("reconciler", 0),
        ("operator", 0),
    ] {
        as_role(role, &count("api_key", keys)).unwrap_or_else(|error| panic!("{role}: {error}"));
        as_role(role, &count("schedule", 1)).unwrap_or_else(|error| panic!("{role}: {error}"));
    }
    for (role, statement) in [
        ("worker", poison),
        ("worker", "DELETE FROM documents WHERE kind = 'poison'"),
        ("worker", "UPDATE documents SET body = '{\"x\":1}'"),
        ("worker", "DELETE FROM documents"),
        ("reconciler", "DELETE FROM documents WHERE kind = 'api_key'"),
    ] {
        as_role(role, statement).unwrap_or_else(|error| panic!("{role}: {error}"));
    }
    // The four, and the message that the worker has kept.
    let untouched = "DO $$ BEGIN IF (SELECT count(*) FROM documents WHERE body::text = '{}') <> 5 THEN \
                     RAISE EXCEPTION 'changed'; END IF; END $$";
    server.run_sql(&owner, untouched).unwrap();
}

#[tokio::test]
async fn a_worker_writes_what_its_steps_submit() {
    let (_folder, ports, _) = with_the_role("counterstep_worker").await;
    suite_of_commits::a_record_comes_back_as_it_was_written(&ports).await;
    suite_of_children::children_are_written_with_their_parent_or_not_at_all(&ports).await;
    suite_of_children::children_are_counted_and_listed_by_step_state_and_place(&ports).await;
    suite_of_children::those_above_tasks_are_found_the_topmost_first(&ports).await;
    suite_of_children::a_wake_makes_a_sleeping_task_due_and_changes_nothing_else(&ports).await;
    suite_of_places::a_place_is_held_once_until_its_task_gives_it_back(&ports).await;
}

#[tokio::test]
async fn whoever_may_only_read_can_check_the_audit() {
    let (_folder, ports, service) = as_a_service().await;
    let task = suite_of_chains::chained(&ports.store, &[2, 3], &serde_json::json!("why"))
        .await
        .task
        .id;
    let operator = service.replacen("counterstep_service@", "counterstep_operator@", 1);
    let store = PostgresStore::look(&operator, &postgres::options()).expect("a store");
    let (verified, found) = suite_of_chains::check(&store.into(), &Scope::default()).await;
    assert_eq!((verified.tasks, verified.rows, found), (1, 2, vec![]));
    for statement in [
        &format!("UPDATE journal SET actor = 'x' WHERE task = '{task}'"),
        "INSERT INTO journal SELECT * FROM journal",
    ] {
        let error = shared_postgres()
            .run_sql(&operator, statement)
            .expect_err(statement);
        assert!(error.contains("permission denied"), "{statement}: {error}");
    }
}

#[tokio::test]
async fn a_statement_of_a_step_without_its_right_fails_for_good_and_names_the_grant() {
    let (_folder, ports, worker) = with_the_role("counterstep_worker").await;
    let (server, owner) = (
        shared_postgres(),
        worker.replacen("counterstep_worker@", "postgres@", 1),
    );
    let tables = "CREATE TABLE seats (key TEXT PRIMARY KEY, n BIGINT); CREATE TABLE rows (id BIGSERIAL, key TEXT);
        GRANT SELECT, INSERT ON rows TO counterstep_worker";
    server.run_sql(&owner, tables).unwrap();
    for (statement, said) in [
        (
            Sql::new("INSERT INTO seats (key, n) VALUES ('17', 1)"),
            "permission denied for table seats; missing: `GRANT INSERT ON seats TO counterstep_worker`",
        ),
        (
            Sql::new("UPDATE seats SET n = n + 1 WHERE key = '17'"),
            "permission denied for table seats; missing: `GRANT SELECT, UPDATE ON seats TO counterstep_worker`",
        ),
        // The server names what is no table.
        (
            Sql::new("INSERT INTO rows (key) VALUES ('17')"),
            "permission denied for sequence rows_id_seq",
        ),
        (
            Sql::new("CREATE TABLE mine (x BIGINT)"),
            "permission denied for schema public",
        ),
    ] {
        let refused = suite_of_own_tables::refused(&ports.store, statement).await;
        assert!(
            refused.text.contains(said) && !refused.may_pass,
            "{refused:?}"
        );
    }
    // What was refused left nothing behind, and the connection is of use.
    suite_of_commits::a_record_comes_back_as_it_was_written(&ports).await;
}

#[tokio::test]
async fn own_tables_that_are_declared_are_granted_and_what_is_missing_is_named() {
    let (_folder, ports, worker) = with_the_role("counterstep_worker").await;
    let (server, owner) = (
        shared_postgres(),
        worker.replacen("counterstep_worker@", "postgres@", 1),
    );
    let rendered = ROLES.replacen(
        "        -- end of rendered\n",
        "        ('own.seats', 'SELECT, INSERT'),\n        -- end of rendered\n",
        1,
    );
    assert_ne!(rendered, ROLES);
    let store = PostgresStore::open(&worker, postgres::options())
        .await
        .expect("a store");
    let rights = [
        ("own.seats".to_owned(), "SELECT"),
        ("own.seats".to_owned(), "INSERT"),
    ];
    let missing = async |roles: &[&str]| store.missing_table_rights(&rights, roles).await.unwrap();
    // Before the table is there the file does the rest of its work.
    run_roles(&owner, &rendered);
    assert_eq!(missing(&[]).await, ["there is no table `own.seats`"]);
    let table = "CREATE SCHEMA own; CREATE TABLE own.seats (id BIGSERIAL, key TEXT);
        GRANT USAGE ON SCHEMA own TO counterstep_worker";
    server.run_sql(&owner, table).unwrap();
    assert_eq!(
        missing(&[]).await,
        ["`GRANT SELECT, INSERT ON own.seats TO counterstep_worker`"]
    );
    let both = missing(&["counterstep_api", "counterstep_worker", "no_such_role"]).await;
    assert_eq!(both.len(), 2, "{both:?}");
    run_roles(&owner, &rendered);
    let both = missing(&["counterstep_api", "counterstep_worker"]).await;
    assert_eq!(both, Vec::<String>::new());
    // Its sequence is granted too.
    let insert = Sql::new("INSERT INTO own.seats (key) VALUES ('17')").rows(1);
    suite_of_own_tables::written(&ports.store, insert).await;
}

/// Of a server of its own: the log of the shared one has the warnings of other tests.
#[tokio::test]
async fn the_file_warns_of_nothing_also_when_it_is_run_again() {
    let server = counterstep_testkit::servers::Postgres::start();
    let owner = server.database();
    PostgresStore::migrate(&owner, &postgres::options())
        .await
        .expect("a schema");
    for _ in 0..2 {
        server.run_sql(&owner, ROLES).unwrap();
    }
    // It is written.
    server
        .run_sql(&owner, "DO $$ BEGIN RAISE WARNING 'here'; END $$")
        .unwrap();
    let log = std::fs::read_to_string(server.folder().join("log")).expect("a log");
    let warnings: Vec<_> = log
        .lines()
        .filter(|line| line.contains("WARNING"))
        .collect();
    assert!(
        matches!(&warnings[..], [one] if one.ends_with("here")),
        "{warnings:?}"
    );
}
