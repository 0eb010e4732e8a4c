//! The rights that `deploy/postgres/roles.sql` gives the services: enough for the work, and no
//! more.

use crate::suite::{chain as suite_of_chains, commits as suite_of_commits};
use crate::{embedded, postgres};
use counterstep_adapters::postgres::PostgresStore;
use counterstep_kernel::ports::Ports;
use counterstep_reconciler::audit::Scope;
use counterstep_testkit::servers::shared_postgres;
use std::sync::{Arc, Mutex, PoisonError};

const ROLES: &str = include_str!("../../../../deploy/postgres/roles.sql");

/// A migrated database with its roles, the ports of a service on it, and the service's URL.
async fn as_a_service() -> (embedded::Fixture, Ports, String) {
    with_the_role("counterstep_service").await
}

/// The same with another role.
async fn with_the_role(role: &str) -> (embedded::Fixture, Ports, String) {
    let (server, owner) = (shared_postgres(), shared_postgres().database());
    PostgresStore::migrate(&owner, &postgres::options())
        .await
        .expect("a schema");
    // As after each migration: once more does no harm.
    {
        // Roles belong to the server and not to a database: PostgreSQL refuses two sessions that
        // alter one at a time.
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        server.run_sql(&owner, ROLES).unwrap();
        server.run_sql(&owner, ROLES).unwrap();
    }
    let service = owner.replacen("postgres@", &format!("{role}@"), 1);
    let store = PostgresStore::open(&service, postgres::options())
        .await
        .expect("a store");
    let embedded = embedded::fixture().await;
    let ports = Ports {
        store: Arc::new(store),
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

#[tokio::test]
async fn a_reconciler_may_delete_tasks_and_rewrite_none() {
    let (_folder, ports, url) = with_the_role("counterstep_reconciler").await;
    suite_of_commits::a_record_comes_back_as_it_was_written(&ports).await;
    for statement in [
        "UPDATE journal SET task = task",
        "TRUNCATE journal",
        "DROP TABLE journal",
        "DELETE FROM poison",
    ] {
        let error = shared_postgres()
            .run_sql(&url, statement)
            .expect_err(statement);
        assert!(
            error.contains("permission denied") || error.contains("must be"),
            "{statement}: {error}"
        );
    }
}

#[tokio::test]
async fn a_service_can_neither_rewrite_the_audit_nor_change_the_schema() {
    let (_folder, ports, service) = as_a_service().await;
    suite_of_commits::a_record_comes_back_as_it_was_written(&ports).await;
    let try_it = |statement: &str| shared_postgres().run_sql(&service, statement);
    try_it("SELECT * FROM journal").unwrap();
    for statement in [
        "UPDATE journal SET task = task",
        "DELETE FROM journal",
        "DELETE FROM tasks",
        "TRUNCATE journal",
        "TRUNCATE tasks",
        "ALTER TABLE journal DISABLE TRIGGER ALL",
        "DROP TABLE journal",
        "CREATE TABLE mine ()",
        "DELETE FROM __diesel_schema_migrations",
        "CREATE ROLE more SUPERUSER",
    ] {
        let error = try_it(statement).expect_err(statement);
        assert!(
            error.contains("permission denied") || error.contains("must be"),
            "{statement}: {error}"
        );
    }
}

#[tokio::test]
async fn whoever_may_only_read_can_check_the_audit() {
    let (_folder, ports, service) = as_a_service().await;
    let task = suite_of_chains::chained(&*ports.store, &[2, 3], &serde_json::json!("why"))
        .await
        .task
        .id;
    let operator = service.replacen("counterstep_service@", "counterstep_operator@", 1);
    let store = PostgresStore::look(&operator, &postgres::options()).expect("a store");
    let (verified, found) = suite_of_chains::check(&store, &Scope::default()).await;
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
