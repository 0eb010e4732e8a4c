//! The rights that `deploy/postgres/roles.sql` gives the services: enough for the work, and no more.

use crate::suite::{attempts, commits, finding, idempotency, upkeep};
use crate::{embedded, postgres};
use counterstep_adapters::postgres::PostgresStore;
use counterstep_kernel::ports::Ports;
use counterstep_testkit::servers::shared_postgres;
use std::sync::Arc;

const ROLES: &str = include_str!("../../../../deploy/postgres/roles.sql");

/// A migrated database with its roles, the ports of a service on it, and the service's URL.
async fn as_a_service() -> (embedded::Fixture, Ports, String) {
    with_the_role("counterstep_service").await
}

/// The same with another role.
async fn with_the_role(role: &str) -> (embedded::Fixture, Ports, String) {
    let (server, owner) = (shared_postgres(), shared_postgres().database());
    PostgresStore::migrate(&owner, &postgres::options()).await.expect("a schema");
    // As after each migration: once more does no harm.
    server.run_sql(&owner, ROLES).unwrap();
    server.run_sql(&owner, ROLES).unwrap();
    let service = owner.replacen("postgres@", &format!("{role}@"), 1);
    let store = PostgresStore::open(&service, postgres::options()).await.expect("a store");
    let embedded = embedded::fixture().await;
    let ports = Ports { store: Arc::new(store), ..embedded.ports.clone() };
    (embedded, ports, service)
}

#[tokio::test]
async fn a_service_can_do_its_work_with_the_rights_it_has() {
    let (_folder, ports, _) = as_a_service().await;
    commits::a_record_comes_back_as_it_was_written(&ports).await;
    attempts::history_comes_back_in_order(&ports).await;
    let (_folder, ports, _) = as_a_service().await;
    attempts::an_upload_that_never_became_a_task_is_swept(&ports).await;
    let (_folder, ports, _) = as_a_service().await;
    finding::a_relay_takes_each_message_once_until_it_is_marked(&ports).await;
    idempotency::an_expired_key_is_free_again(&ports).await;
    let (_folder, ports, _) = as_a_service().await;
    upkeep::rows_say_what_becomes_of_the_objects_of_an_attempt(&ports).await;
    upkeep::a_listing_whose_holder_died_goes_on_where_it_was(&ports).await;
}

#[tokio::test]
async fn a_reconciler_may_delete_tasks_that_ended_and_rewrite_none() {
    let (_folder, ports, url) = with_the_role("counterstep_reconciler").await;
    upkeep::a_buried_task_leaves_a_tombstone_and_no_row(&ports).await;
    commits::a_record_comes_back_as_it_was_written(&ports).await;
    let error = shared_postgres().run_sql(&url, "UPDATE audit SET task = task").expect_err("it is refused");
    assert!(error.contains("permission denied"), "{error}");
}

#[tokio::test]
async fn a_service_can_neither_rewrite_the_audit_nor_change_the_schema() {
    let (_folder, ports, service) = as_a_service().await;
    commits::a_record_comes_back_as_it_was_written(&ports).await;
    let try_it = |statement: &str| shared_postgres().run_sql(&service, statement);
    try_it("SELECT * FROM audit").unwrap();
    for statement in [
        "UPDATE audit SET task = task",
        "DELETE FROM audit",
        "DELETE FROM tasks",
        "TRUNCATE audit",
        "TRUNCATE tasks",
        "ALTER TABLE audit DISABLE TRIGGER ALL",
        "DROP TABLE audit",
        "CREATE TABLE mine ()",
        "DELETE FROM __diesel_schema_migrations",
        "CREATE ROLE more SUPERUSER",
    ] {
        let error = try_it(statement).expect_err(statement);
        assert!(error.contains("permission denied") || error.contains("must be"), "{statement}: {error}");
    }
}
