//! The statement of a submission in a transaction of others: the rows of a commit, and no right beyond
//! them.

use super::access::ROLES;
use super::{database, number, open, options, raw};
use crate::suite::changes::*;
use crate::suite::places;
use counterstep_adapters::postgres::{PostgresOptions, PostgresStore};
use counterstep_contracts::{TaskId, TaskStatus, Tenant};
use counterstep_kernel::change::transition::{IdempotencyWrite, Time, Transition};
use counterstep_kernel::ports::{CommitError, First, KEY_TAKEN, SqlStatement, Store};
use counterstep_testkit::servers::Postgres;
use serde_json::json;
use std::time::Duration;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error};

pub(super) fn keyed(task: TaskId, key: &str) -> Transition {
    let mut row = row(task);
    row.labels.add("order", "4711").expect("a label");
    let mut change = submit(row);
    change.events = vec![event(task, 1)];
    change.idempotency = Some(IdempotencyWrite::Finish {
        tenant: Tenant::default(),
        key: key.to_owned(),
        fingerprint: "f".to_owned(),
        answer: json!({"task_id": task}),
        expires_in: Duration::from_secs(24 * 3600),
    });
    whole(None, change)
}

pub(super) fn statement(store: &Store, change: &Transition) -> SqlStatement {
    let statement = store.statement(change).expect("it can be written");
    statement.expect("PostgreSQL has one")
}

pub(super) async fn execute(client: &Client, statement: &SqlStatement) -> Result<u64, Error> {
    let each = |param| param as &(dyn ToSql + Sync);
    let params: Vec<_> = statement.params.iter().map(each).collect();
    client.execute(&*statement.sql, &params).await
}

/// All rows, as JSON, without what the time of their transaction has made.
async fn rows(client: &Client) -> Vec<String> {
    let mut all = Vec::new();
    for (table, times) in [
        (
            "tasks",
            "{created_at,updated_at,unclaimed_since,deadline_at,audit_seal}",
        ),
        ("journal", "{at,seal}"),
        ("outbox", "{created_at,visible_at}"),
        ("idempotency", "{expires_at}"),
        ("task_labels", "{}"),
    ] {
        let query = format!("SELECT (to_jsonb(r) - '{times}'::text[])::text FROM {table} r");
        let found = client.query(&*query, &[]).await.expect("rows");
        assert_eq!(found.len(), 1, "{table}");
        all.push(format!("{table}: {}", found[0].get::<_, String>(0)));
    }
    all
}

#[tokio::test]
async fn the_statement_for_others_writes_the_rows_of_a_commit() {
    let (ours, theirs) = (database().await, database().await);
    let (store, raw_ours, raw_theirs) = (
        open(&ours, options()).await,
        raw(&ours).await,
        raw(&theirs).await,
    );
    let change = keyed(new_task(), "key");
    commit(&store, NEW, &change).await.unwrap();
    let statement = statement(&store, &change);
    assert_eq!(execute(&raw_theirs, &statement).await.unwrap(), 1);
    assert_eq!(rows(&raw_theirs).await, rows(&raw_ours).await);
    let kept =
        "SELECT extract(epoch FROM i.expires_at - j.at)::bigint FROM idempotency i, journal j";
    assert_eq!(number(&raw_theirs, kept).await, 24 * 3600);
    let sealed =
        "SELECT count(*) FROM tasks t JOIN journal j ON j.task = t.id AND j.seal = t.audit_seal
                  AND j.seal = sha256(j.link || timestamptz_send(j.at)) AND t.created_at = j.at";
    assert_eq!(number(&raw_theirs, sealed).await, 1);
    assert_eq!(execute(&raw_theirs, &statement).await.unwrap(), 0, "once");
    assert_eq!(rows(&raw_theirs).await, rows(&raw_ours).await);
}

#[tokio::test]
async fn a_taken_key_ends_the_statement_and_its_limits_are_the_callers() {
    let url = database().await;
    let (store, client) = (open(&url, options()).await, raw(&url).await);
    let (first, second) = (keyed(new_task(), "key"), keyed(new_task(), "key"));
    commit(&store, NEW, &first).await.unwrap();
    client
        .batch_execute("BEGIN; SET LOCAL lock_timeout = '1234ms'; SAVEPOINT here")
        .await
        .unwrap();
    let refused = execute(&client, &statement(&store, &second))
        .await
        .unwrap_err();
    let constraint = refused.as_db_error().and_then(|it| it.constraint());
    assert_eq!(constraint, Some(KEY_TAKEN));
    client.batch_execute("ROLLBACK TO here").await.unwrap();
    let other = keyed(new_task(), "other");
    assert_eq!(
        execute(&client, &statement(&store, &other)).await.unwrap(),
        1
    );
    let limit: String = client
        .query_one("SHOW lock_timeout", &[])
        .await
        .unwrap()
        .get(0);
    assert_eq!(limit, "1234ms");
    // Until the transaction ends, its key is held: a commit of the store waits, and gives up.
    let quick = PostgresOptions {
        lock_timeout: Duration::from_millis(200),
        ..options()
    };
    let held = open(&url, quick).await;
    let third = keyed(new_task(), "other");
    let refused = commit(&held, NEW, &third).await;
    assert!(matches!(refused, Err(CommitError::Store(_))), "{refused:?}");
    client.batch_execute("COMMIT").await.unwrap();
    let refused = commit(&held, NEW, &third).await;
    assert!(matches!(refused, Err(CommitError::KeyTaken)), "{refused:?}");
}

#[tokio::test]
async fn the_submitters_role_executes_the_statement_and_nothing_else() {
    // Of its own: roles belong to a server, and two sessions must not alter one at a time.
    let server = Postgres::start();
    let url = server.database();
    PostgresStore::migrate(&url, &options()).await.unwrap();
    let (store, admin) = (open(&url, options()).await, raw(&url).await);
    // As after each migration: once more does no harm.
    admin.batch_execute(ROLES).await.unwrap();
    admin.batch_execute(ROLES).await.unwrap();
    // An application has a role of its own.
    admin
        .batch_execute("CREATE ROLE shop LOGIN; GRANT counterstep_submitter TO shop")
        .await
        .unwrap();
    let shop = raw(&url.replace("postgres@", "shop@")).await;
    let change = keyed(new_task(), "key");
    assert_eq!(
        execute(&shop, &statement(&store, &change)).await.unwrap(),
        1
    );
    admin
        .batch_execute("UPDATE idempotency SET expires_at = now()")
        .await
        .unwrap();
    let again = keyed(new_task(), "key");
    assert_eq!(execute(&shop, &statement(&store, &again)).await.unwrap(), 1);
    let mut placed = places::entering("Zip", None);
    placed.events = vec![event(placed.task_id, 1)];
    let placed = statement(&store, &whole(None, placed));
    assert_eq!(execute(&shop, &placed).await.unwrap(), 1);
    // One of pure steps of the API ends with its submission.
    let mut done = keyed(new_task(), "done");
    write_of(&mut done).row.status = TaskStatus::Completed;
    write_of(&mut done).finished = Time::In(Duration::ZERO);
    let done = statement(&store, &done);
    assert_eq!(execute(&shop, &done).await.unwrap(), 1);
    for forbidden in [
        "SELECT status FROM tasks",
        "UPDATE tasks SET rev = 0",
        "DELETE FROM tasks",
        "SELECT data FROM journal",
        "UPDATE journal SET actor = 'x'",
        "DELETE FROM journal",
        "SELECT events FROM outbox",
        "SELECT value FROM task_labels",
        "DELETE FROM task_labels",
        "DELETE FROM outbox",
        "UPDATE idempotency SET key = 'x'",
        "DELETE FROM idempotency",
        "SELECT 1 FROM receives",
        "SELECT 1 FROM documents",
        "INSERT INTO documents VALUES ('worker', 'default', 'x', 1, '{}', NULL, now())",
        "SELECT 1 FROM tombstones",
        "SELECT 1 FROM __diesel_schema_migrations",
        "SELECT counterstep_erase(gen_random_uuid())",
        "CREATE TABLE x ()",
    ] {
        let error = shop.batch_execute(forbidden).await.expect_err(forbidden);
        assert_eq!(
            error.code().map(|code| code.code()),
            Some("42501"),
            "{forbidden}: {error}"
        );
    }
}

/// A server with the roles of two applications, of which one has a tenant.
async fn with_submitters() -> (Postgres, String, Store, Client) {
    let server = Postgres::start();
    let url = server.database();
    PostgresStore::migrate(&url, &options()).await.unwrap();
    let (store, admin) = (open(&url, options()).await, raw(&url).await);
    admin.batch_execute(ROLES).await.unwrap();
    admin
        .batch_execute(
            "CREATE ROLE shop LOGIN; GRANT counterstep_submitter TO shop;
             CREATE ROLE acme LOGIN; GRANT counterstep_submitter TO acme;
             ALTER ROLE acme SET counterstep.tenant = 'acme'",
        )
        .await
        .unwrap();
    (server, url, store, admin)
}

/// A right to insert, and to write over keys, used without the statement.
#[tokio::test]
async fn the_submitters_role_adds_to_no_task_of_others_and_takes_no_key_of_theirs() {
    let (_server, url, store, _) = with_submitters().await;
    let theirs = keyed(new_task(), "key");
    commit(&store, NEW, &theirs).await.unwrap();
    let task = theirs.task_id;
    let entry = format!(
        "INSERT INTO journal (task, rev, epoch, at, change_id, actor, form, entries, link, seal)
         VALUES ('{task}', 2, 0, now(), gen_random_uuid(), 'x', 1, '[]', '', '')"
    );
    let new = |tenant: &str, rev: i64, owner: &str| {
        format!(
            "INSERT INTO tasks (id, tenant, task_type, version, definition_hash, status, host, queue, rev, epoch,
               lease_owner, recovery_attempts, audit_seq, residue, created_at, updated_at, change_id)
             VALUES (gen_random_uuid(), '{tenant}', 'Zip', 1, '', 'dispatched', 'worker', 'q', {rev}, 0,
               {owner}, 0, 1, false, now(), now(), gen_random_uuid())"
        )
    };
    let of_shop = raw(&url.replace("postgres@", "shop@")).await;
    let of_acme = raw(&url.replace("postgres@", "acme@")).await;
    for (client, forbidden) in [
        (&of_shop, &entry),
        (&of_shop, &new("default", 2, "NULL")),
        (&of_shop, &new("default", 1, "'worker:x'")),
        (&of_acme, &new("default", 1, "NULL")),
        // A session may set it, but the role has it.
        (
            &of_acme,
            &format!("SET counterstep.tenant = ''; {}", new("default", 1, "NULL")),
        ),
    ] {
        let error = client.batch_execute(forbidden).await.expect_err(forbidden);
        let code = error.code().map(|code| code.code());
        assert_eq!(code, Some("42501"), "{forbidden}: {error}");
    }
    for (client, allowed) in [
        (&of_shop, new("default", 1, "NULL")),
        (&of_acme, new("acme", 1, "NULL")),
    ] {
        client.batch_execute(&allowed).await.expect("its own");
    }
    let redirect = "UPDATE idempotency SET task = gen_random_uuid()";
    for client in [&of_shop, &of_acme] {
        assert_eq!(client.execute(redirect, &[]).await.unwrap(), 0);
    }
    let seen = "SELECT count(*) FROM idempotency";
    assert_eq!(number(&of_shop, seen).await, 1);
    assert_eq!(number(&of_acme, seen).await, 0, "another tenant's");
    // A key that lives is refused as it is to all, and one whose time is over is free.
    let again = keyed(new_task(), "key");
    let refused = execute(&of_shop, &statement(&store, &again))
        .await
        .unwrap_err();
    let constraint = refused.as_db_error().and_then(|it| it.constraint());
    assert_eq!(constraint, Some(KEY_TAKEN), "{refused}");
}

#[tokio::test]
async fn the_submitters_role_adds_rows_of_what_it_submits_alone() {
    let (_server, url, store, _) = with_submitters().await;
    let theirs = submitted(&store, row(new_task())).await.task.id;
    let own = new_task();
    let acme = raw(&url.replace("postgres@", "acme@")).await;
    let task = |status: &str, created_at: &str| {
        format!(
            "BEGIN; INSERT INTO tasks (id, tenant, task_type, version, definition_hash, status, host, queue, rev, epoch,
               recovery_attempts, audit_seq, residue, created_at, updated_at, change_id)
             VALUES ('{own}', 'acme', 'Zip', 1, '', '{status}', 'worker', 'q', 1, 0,
               0, 1, false, {created_at}, now(), gen_random_uuid()); "
        )
    };
    let beside = |row: &str| task("dispatched", "now()") + row;
    let place = |task: TaskId, key: &str| {
        format!("INSERT INTO places (key, task, created_at) VALUES ('{key}', '{task}', now())")
    };
    let label = |task: TaskId, tenant: &str| {
        format!("INSERT INTO task_labels VALUES ('{tenant}', 'name', 'value', '{task}')")
    };
    let entry = |task: TaskId| {
        format!(
            "INSERT INTO journal (task, rev, epoch, at, change_id, actor, form, entries, link, seal)
             VALUES ('{task}', 1, 0, now(), gen_random_uuid(), 'x', 1, '[]', '', '')"
        )
    };
    let told = |of: TaskId, (task, tenant, task_type): (TaskId, &str, &str)| {
        format!(
            r#"INSERT INTO outbox (task, events, change_id, created_at, visible_at) VALUES ('{of}',
             '[{{"task": "{task}", "tenant": "{tenant}", "task_type": "{task_type}"}}]', gen_random_uuid(), now(), now())"#
        )
    };
    for forbidden in [
        task("no status", "now()"),
        task("completed", "now()"),
        task("failed", "now()"),
        task("dispatched", "now() - interval '1 s'"),
        entry(theirs),
        place(theirs, "Zip"),
        place(own, "Zip"),
        label(theirs, "acme"),
        told(theirs, (theirs, "default", "Zip")),
        told(theirs, (theirs, "acme", "Zip")),
        beside(&place(own, "Other")),
        beside(&format!(
            "INSERT INTO places (key, task, no, created_at) VALUES ('Zip', '{own}', 0, now())"
        )),
        beside(&format!(
            "INSERT INTO places (key, task, created_at) VALUES ('Zip', '{own}', now() - interval '1 s')"
        )),
        beside(&place(own, "Zip/default/x")),
        beside(&label(own, "default")),
        beside(&told(own, (theirs, "acme", "Zip"))),
        beside(&told(own, (own, "default", "Zip"))),
        beside(&told(own, (own, "acme", "Other"))),
        beside(&entry(theirs)),
    ] {
        let error = acme.batch_execute(&forbidden).await.expect_err(&forbidden);
        let code = error.code().map(|code| code.code());
        assert_eq!(code, Some("42501"), "{forbidden}: {error}");
        acme.batch_execute("ROLLBACK").await.unwrap();
    }
    for allowed in [
        place(own, "Zip"),
        place(own, "Zip/acme/x"),
        label(own, "acme"),
        told(own, (own, "acme", "Zip")),
        entry(own),
    ] {
        acme.batch_execute(&beside(&allowed)).await.expect(&allowed);
        acme.batch_execute("ROLLBACK").await.unwrap();
    }
}

#[tokio::test]
async fn only_a_submission_has_a_statement_for_others() {
    let store = open(&database().await, options()).await;
    let record = submitted(&store, row(new_task())).await;
    for change in [after(&record), begin(new_task(), MINUTE)] {
        assert!(store.statement(&change).is_err(), "{change:?}");
    }
}

#[tokio::test]
async fn a_task_is_newer_than_those_that_took_a_place_before_it_was_committed() {
    let url = database().await;
    let (store, client) = (open(&url, options()).await, raw(&url).await);
    let key = places::new_key("late");
    let late = whole(None, places::entering(&key, None));
    client.batch_execute("BEGIN").await.unwrap();
    let written = execute(&client, &statement(&store, &late)).await;
    assert_eq!(written.unwrap(), 1);
    let waits = places::entered(&store, &key, None).await;
    let holder = places::entered(&store, &key, None).await;
    let holder = places::take(&store, &holder, 0).await.unwrap();
    client.batch_execute("COMMIT").await.unwrap();
    let began = load(&store, late.task_id).await.task.created_at;
    assert!(began < waits.task.created_at, "as its transaction");
    let since = async |task: TaskId| {
        let rows = places::places(&store, &key, First::Newest, 10).await;
        let row = rows.into_iter().find(|row| row.task == task);
        row.expect("a row").since
    };
    assert_eq!(since(holder.task.id).await, holder.task.created_at);
    assert_eq!(since(waits.task.id).await, waits.task.created_at, "seen");
    assert!(since(late.task_id).await > holder.task.created_at);
    // One that was seen, and comes again from its rest, stands where it stood.
    let waits = places::take(&store, &waits, 2).await.unwrap();
    let ended = places::leave(&store, &waits).await;
    places::leave_rest(&store, &ended).await;
    assert_eq!(since(waits.task.id).await, waits.task.created_at);
    // The late one stays newer where there are places for both.
    let record = load(&store, late.task_id).await;
    let record = places::take(&store, &record, 1).await.unwrap();
    assert!(since(late.task_id).await > holder.task.created_at);
    places::leave(&store, &holder).await;
    assert_eq!(since(late.task_id).await, record.task.created_at);
}
