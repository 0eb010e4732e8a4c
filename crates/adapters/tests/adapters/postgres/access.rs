//! Who may connect and do what: hosts, TLS, passwords, roles.

use super::{database, number, open, options, raw};
use crate::suite::changes::*;
use crate::suite::children::{end_of, family};
use counterstep_adapters::client_certificate::ClientCertificate;
use counterstep_adapters::postgres::{OpenError, PostgresOptions, PostgresStore};
use counterstep_contracts::{Epoch, Outcome, TaskStatus};
use counterstep_kernel::change::transition::{LeaseChange, Time};
use counterstep_kernel::ports::{Find, JournalPage, Lane, OutboxOp, PurgeOp, ReceiveOp};
use counterstep_testkit::servers::{Postgres, shared_postgres};
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

#[tokio::test]
async fn a_remote_server_without_tls_is_refused_unless_allowed() {
    let quick = PostgresOptions {
        connect_timeout: Duration::from_millis(100),
        ..options()
    };
    for url in [
        "postgres://u@db.invalid/x",
        "postgres://u@192.0.2.1/x?sslmode=prefer",
        "postgres://u@192.0.2.1/x?sslmode=disable",
        "postgres://u@localhost,db.invalid/x",
        "host=localhost hostaddr=192.0.2.1 user=u",
    ] {
        let refused = PostgresStore::open(url, quick.clone()).await;
        assert!(
            matches!(refused, Err(OpenError::Plaintext { .. })),
            "{url}: {refused:?}"
        );
    }
    let allowed = PostgresOptions {
        allow_plaintext: true,
        ..quick
    };
    let tried = PostgresStore::open("postgres://u@db.invalid/x", allowed).await;
    assert!(matches!(tried, Err(OpenError::Connection(_))), "{tried:?}");
}

#[tokio::test]
async fn no_error_shows_the_password() {
    for url in [
        "postgres://u:s3cret@db.invalid/x",
        "postgres://u:s3cret@127.0.0.1:1/x",
        "postgres://u:s3cret@127.0.0.1:port/x",
        "postgres://u:s3cret@127.0.0.1/x?sslmode=maybe",
        "postgres://u:s3cret%@127.0.0.1/x",
        "mysql://u:s3cret@127.0.0.1/x",
    ] {
        let error = PostgresStore::open(url, options()).await.unwrap_err();
        assert!(
            !format!("{error} {error:?}").contains("s3cret"),
            "{error:?}"
        );
    }
    let store = open(
        &database().await.replace("postgres@", "postgres:s3cret@"),
        options(),
    )
    .await;
    assert!(!format!("{store:?}").contains("s3cret"));
}

#[tokio::test]
async fn a_password_may_come_from_a_file() {
    let server = shared_postgres();
    let url = database().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    let options = PostgresOptions {
        password_file: Some(file.clone()),
        ..options()
    };
    let missing = PostgresStore::open(&url, options.clone()).await;
    assert!(
        matches!(missing, Err(OpenError::File { .. })),
        "{missing:?}"
    );
    std::fs::write(&file, "s3cret\n").unwrap();
    // The server requires no password; to give ours does no harm.
    open(&url, options).await;
    assert!(server.pid().is_some());
}

fn openssl(folder: &Path, arguments: &str) {
    let made = Command::new("openssl")
        .args(arguments.split(' '))
        .current_dir(folder)
        .output()
        .expect("openssl");
    assert!(
        made.status.success(),
        "openssl {arguments}: {}",
        String::from_utf8_lossy(&made.stderr)
    );
}

#[tokio::test]
async fn tls_is_used_where_the_url_asks_with_trusted_certificates_on_both_sides() {
    let server = Postgres::start();
    let url = server.database();
    PostgresStore::migrate(&url, &options()).await.unwrap();
    let admin = raw(&url).await;
    let data: String = admin
        .query_one("SHOW data_directory", &[])
        .await
        .unwrap()
        .get(0);
    let folder = tempfile::tempdir().unwrap();
    let new = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(
        folder.path(),
        &format!("req -x509 {new} -keyout ca.key -out ca.crt -days 2 -subj /CN=authority"),
    );
    openssl(
        folder.path(),
        &format!("req -x509 {new} -keyout x.key -out other.crt -days 2 -subj /CN=other"),
    );
    openssl(
        folder.path(),
        &format!("req {new} -keyout server.key -out server.csr -subj /CN=localhost"),
    );
    std::fs::write(
        folder.path().join("names"),
        "subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n",
    )
    .unwrap();
    let sign = "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile names -out server.crt";
    openssl(folder.path(), sign);
    let owner = std::fs::metadata(&data).unwrap().uid();
    for name in ["server.crt", "server.key"] {
        let place = Path::new(&data).join(name);
        std::fs::copy(folder.path().join(name), &place).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&place, mode).unwrap();
        chown(&place, Some(owner), None).unwrap();
    }
    admin
        .batch_execute("ALTER SYSTEM SET ssl = on")
        .await
        .unwrap();
    admin
        .batch_execute("SELECT pg_reload_conf()")
        .await
        .unwrap();

    let url = format!("{url}?sslmode=require");
    let trusting = |name: &str| PostgresOptions {
        ca_file: Some(folder.path().join(name)),
        application_name: "over-tls".to_owned(),
        ..options()
    };
    let store = crate::suite::eventually("TLS", || async {
        PostgresStore::open(&url, trusting("ca.crt")).await.ok()
    });
    let store = store.await.into();
    submitted(&store, row(new_task())).await;
    let plain = "SELECT count(*) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid)
                 WHERE a.application_name = 'over-tls' AND";
    assert!(number(&admin, &format!("{plain} s.ssl")).await > 0);
    assert_eq!(number(&admin, &format!("{plain} NOT s.ssl")).await, 0);
    for other in ["other.crt", "names"] {
        let refused = PostgresStore::open(&url, trusting(other)).await;
        assert!(
            matches!(
                refused,
                Err(OpenError::Connection(_) | OpenError::File { .. })
            ),
            "{refused:?}"
        );
    }
    let unknown = PostgresStore::open(&url, options()).await;
    assert!(
        matches!(unknown, Err(OpenError::Connection(_))),
        "{unknown:?}"
    );

    // A user who has to prove itself with a certificate of the same authority.
    let rules = Path::new(&data).join("pg_hba.conf");
    let others = std::fs::read_to_string(&rules).unwrap();
    let rule = "hostssl all guarded 127.0.0.1/32 trust clientcert=verify-ca\nhostnossl all guarded all reject\n";
    std::fs::write(&rules, format!("{rule}{others}")).unwrap();
    std::fs::copy(
        folder.path().join("ca.crt"),
        Path::new(&data).join("ca.crt"),
    )
    .unwrap();
    chown(Path::new(&data).join("ca.crt"), Some(owner), None).unwrap();
    admin
        .batch_execute("CREATE ROLE guarded LOGIN SUPERUSER")
        .await
        .unwrap();
    admin
        .batch_execute("ALTER SYSTEM SET ssl_ca_file = 'ca.crt'")
        .await
        .unwrap();
    admin
        .batch_execute("SELECT pg_reload_conf()")
        .await
        .unwrap();
    let guarded = url.replace("postgres@", "guarded@");
    let file = |name: &str| folder.path().join(name);
    let ours = ClientCertificate {
        cert_file: file("server.crt"),
        key_file: file("server.key"),
    };
    let with = PostgresOptions {
        certificate: Some(ours.clone()),
        ..trusting("ca.crt")
    };
    crate::suite::eventually("a certificate that counts", || async {
        PostgresStore::open(&guarded, with.clone()).await.ok()
    })
    .await;
    let without = PostgresStore::open(&guarded, trusting("ca.crt")).await;
    assert!(
        matches!(without, Err(OpenError::Connection(_))),
        "{without:?}"
    );
    let strange = ClientCertificate {
        key_file: file("x.key"),
        ..ours
    };
    let strange = PostgresOptions {
        certificate: Some(strange),
        ..trusting("ca.crt")
    };
    let refused = PostgresStore::open(&guarded, strange).await;
    assert!(
        matches!(refused, Err(OpenError::File { .. })),
        "{refused:?}"
    );
    let in_the_clear = PostgresStore::open(&guarded.replace("?sslmode=require", ""), with).await;
    assert!(
        matches!(in_the_clear, Err(OpenError::File { .. })),
        "{in_the_clear:?}"
    );
}

pub(super) const ROLES: &str = include_str!("../../../../../deploy/postgres/roles.sql");

#[tokio::test]
async fn the_service_role_can_commit_and_cannot_touch_the_audit() {
    let url = database().await;
    let admin = raw(&url).await;
    // As after each migration: once more does no harm.
    admin.batch_execute(ROLES).await.unwrap();
    admin.batch_execute(ROLES).await.unwrap();
    let as_role = |role: &str| url.replace("postgres@", &format!("counterstep_{role}@"));

    // The ways of a task, a sweep, a relay and a client.
    let store = open(&as_role("service"), options()).await;
    let record = claimed(&store, Duration::ZERO).await;
    let mut change = after(&record);
    change.attempts = vec![
        start(1, Epoch(1), Duration::ZERO),
        start(2, Epoch(1), Duration::ZERO),
    ];
    change.steps = record.steps.clone();
    commit(&store, leased(&record), &change).await.unwrap();
    let record = load(&store, record.task.id).await;
    let mut change = after(&record);
    change.attempts = vec![end(1, Outcome::Succeeded, true)];
    change.events = vec![event(record.task.id, 1)];
    write_of(&mut change).lease = LeaseChange::Release;
    commit(&store, leased(&record), &change).await.unwrap();
    let to_sweep = store.find(&Find::ToSweep, 9).await.unwrap();
    assert_eq!(to_sweep.len(), 1);
    assert_eq!(to_sweep[0].task, record.task.id);
    sweep(&store, record.task.id, vec![condemn(2)]).await;
    store.put_off(&[record.task.id], MINUTE).await.unwrap();
    let receives = [new_task(), new_task()];
    for task in receives {
        commit(&store, NEW, &begin(task, Duration::ZERO))
            .await
            .unwrap();
    }
    commit(&store, NEW, &submit_received(receives[0]))
        .await
        .unwrap();
    assert_eq!(
        store
            .receives(&ReceiveOp::Overdue { limit: 9 })
            .await
            .unwrap()
            .rows
            .len(),
        1
    );
    store
        .receives(&ReceiveOp::Condemn(receives.to_vec()))
        .await
        .unwrap();
    store
        .receives(&ReceiveOp::Swept(receives.to_vec()))
        .await
        .unwrap();
    assert_eq!(
        store
            .receives(&ReceiveOp::Of(receives.to_vec()))
            .await
            .unwrap()
            .rows,
        []
    );
    store
        .purge(&PurgeOp::TombstonesOf(receives.to_vec()))
        .await
        .unwrap();
    let taken = store
        .outbox(OutboxOp::Take {
            older_than: Duration::ZERO,
            limit: 9,
        })
        .await
        .unwrap();
    assert_eq!(taken.len(), 1);
    store
        .outbox(OutboxOp::Published(
            taken.iter().map(|row| row.id).collect(),
        ))
        .await
        .unwrap();
    store
        .heartbeat(record.task.id, record.task.epoch, MINUTE)
        .await
        .unwrap();
    store.history(record.task.id).await.unwrap();

    let service = raw(&as_role("service")).await;
    for forbidden in [
        "UPDATE journal SET actor = 'x'",
        "DELETE FROM journal",
        "TRUNCATE journal",
        "DELETE FROM tasks",
        "DROP TABLE journal",
        "CREATE TABLE x ()",
        "UPDATE __diesel_schema_migrations SET version = 'x'",
    ] {
        let error = service.batch_execute(forbidden).await.expect_err(forbidden);
        assert_eq!(
            error.code().map(|code| code.code()),
            Some("42501"),
            "{forbidden}: {error}"
        );
    }
    let operator = raw(&as_role("operator")).await;
    assert!(number(&operator, "SELECT count(*) FROM journal").await > 0);
    assert!(
        operator
            .batch_execute("UPDATE tasks SET rev = 0")
            .await
            .is_err()
    );
    let eraser = raw(&as_role("eraser")).await;
    for forbidden in [
        "UPDATE journal SET data = NULL",
        "SELECT data FROM journal",
        "UPDATE tasks SET rev = 0",
    ] {
        let error = eraser.batch_execute(forbidden).await.expect_err(forbidden);
        assert_eq!(
            error.code().map(|code| code.code()),
            Some("42501"),
            "{forbidden}: {error}"
        );
    }
    // A function of the same name as one of its own would run in its place with more rights.
    eraser
        .batch_execute("CREATE TEMP TABLE tasks (id UUID, finished_at TIMESTAMPTZ)")
        .await
        .unwrap();
    let erase = format!("SELECT counterstep_erase('{}')", record.task.id);
    assert_eq!(number(&eraser, &erase).await, 0, "it has not ended");
    let record = load(&store, record.task.id).await;
    let mut change = after(&record);
    write_of(&mut change).row.status = TaskStatus::Resolved;
    write_of(&mut change).finished = Time::In(Duration::ZERO);
    commit(&store, free(&record), &change).await.unwrap();
    let row = crate::suite::logs::log_row(1, 1, 1, 10);
    crate::suite::logs::add(&store, &record, &row).await;
    assert!(number(&eraser, &erase).await > 0);
    assert_eq!(store.log(record.task.id).await.unwrap(), []);
    assert_eq!(number(&eraser, &erase).await, 0, "once");
    let page = JournalPage {
        task: Some(record.task.id.to_string()),
        after: None,
        limit: 10,
        lane: Lane::People,
    };
    let rows = store.journal(&page).await.unwrap();
    assert!(
        rows.len() > 2 && rows.iter().all(|row| row.data.is_none()),
        "{rows:?}"
    );
    // What a task above may have to undo.
    let (parent, children) = family(&store, 1).await;
    end_of(&store, children[0], TaskStatus::Completed).await;
    let erase = format!("SELECT counterstep_erase('{}')", children[0]);
    assert_eq!(number(&eraser, &erase).await, 0, "its parent has not ended");
    end_of(&store, parent.task.id, TaskStatus::Completed).await;
    assert!(number(&eraser, &erase).await > 0);
    // A schema is not theirs to change, nor to bring up to date.
    raw(&url)
        .await
        .batch_execute("DELETE FROM __diesel_schema_migrations")
        .await
        .unwrap();
    assert!(
        PostgresStore::migrate(&as_role("service"), &options())
            .await
            .is_err()
    );
}
