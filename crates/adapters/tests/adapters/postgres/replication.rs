//! A primary whose commits wait for its standby. Who ends that wait makes the primary answer as if all was well, with a
//! warning: nothing is done on that answer before the standby has it.

use super::lost_replies::Tick;
use super::{database, number, open, options, raw};
use crate::embedded::Fixture;
use crate::suite::changes::*;
use crate::suite::{eventually, within_limit};
use counterstep_adapters::postgres::{PostgresOptions, PostgresStore};
use counterstep_contracts::TaskId;
use counterstep_kernel::client::SubmitError;
use counterstep_kernel::ports::{CommitError, Heartbeat, Ports, Store, StoreError};
use counterstep_kernel::{Engine, EngineSettings};
use counterstep_steps::{Registry, Sql};
use counterstep_testkit::servers::{Postgres, Proxy, shared_postgres};
use counterstep_testkit::{Form, LossyQueue, TestClock, form};
use futures::future::join_all;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::Client;

/// What an administrator may do to a commit that waits.
const CANCEL: &str = "pg_cancel_backend";
const TERMINATE: &str = "pg_terminate_backend";

/// A primary with a standby that is away, and two processes behind an address that can move.
struct Pair {
    primary: Postgres,
    standby: Postgres,
    proxy: Proxy,
    url: String,
    store: Store,
    engine: Engine,
    other: Engine,
    admin: Client,
    _folders: [TempDir; 2],
}

impl Pair {
    async fn without_its_standby() -> Self {
        let primary = Postgres::primary();
        let url = primary.database();
        PostgresStore::migrate(&url, &options()).await.unwrap();
        let standby = primary.standby("s1", primary.port());
        primary.commits_wait_for(Some("s1"));
        let proxy = Proxy::to(primary.port());
        let store = open(&proxy.url(&url), options()).await;
        let (engine, folder) = engine_at(&proxy.url(&url)).await;
        let (other, other_folder) = engine_at(&proxy.url(&url)).await;
        let admin = raw(&url).await;
        standby.stop();
        Self {
            primary,
            standby,
            proxy,
            url,
            store,
            engine,
            other,
            admin,
            _folders: [folder, other_folder],
        }
    }

    fn submits(&self, engine: &Engine, key: &str) -> JoinHandle<Result<TaskId, SubmitError>> {
        let (engine, form) = (engine.clone(), Form::to::<Tick>().key(key));
        tokio::spawn(async move { form::try_submit(&engine, form).await })
    }

    async fn waiting(&self) -> i64 {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        number(&self.admin, waiting).await
    }

    async fn until_waiting(&self, least: i64) {
        eventually("commits that wait for the standby", || async {
            (self.waiting().await >= least).then_some(())
        })
        .await;
    }

    /// Ends the waits, in one of an administrator's ways.
    async fn end_waits(&self, how: &str) {
        let end =
            format!("SELECT count({how}(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
        number(&self.admin, &end).await;
    }

    /// Ends the wait of a submission, and returns when its task can be seen, which was made after `before` others, and when either
    /// a further commit waits or there is an answer.
    async fn ends_the_wait<T>(&self, how: &str, before: i64, answer: &JoinHandle<T>) {
        self.until_waiting(1).await;
        self.end_waits(how).await;
        eventually("a task that the standby does not have", || async {
            let tasks = number(&self.admin, "SELECT count(*) FROM tasks").await;
            (tasks > before).then_some(())
        })
        .await;
        eventually("another wait, or an answer", || async {
            (answer.is_finished() || self.waiting().await > 0).then_some(())
        })
        .await;
        assert!(
            !answer.is_finished(),
            "{how}: answered before the standby has it"
        );
    }

    /// The primary dies, and the standby takes its place.
    fn fails_over(&self) {
        self.primary.kill();
        self.standby.begin();
        self.standby.promote();
        self.proxy.redirect(self.standby.port());
    }

    /// Tasks on the server that was promoted.
    async fn on_the_standby(&self) -> i64 {
        let name = self.url.rsplit('/').next().expect("a name");
        number(
            &raw(&self.standby.url_of(name)).await,
            "SELECT count(*) FROM tasks",
        )
        .await
    }
}

async fn engine_at(url: &str) -> (Engine, TempDir) {
    engine_on(crate::embedded::fixture().await, open(url, options()).await)
}

/// The same under a clock that the test advances.
async fn engine_under(url: &str, clock: &TestClock, options: PostgresOptions) -> (Engine, TempDir) {
    let embedded = crate::embedded::fixture_under(clock).await;
    engine_on(embedded, open(url, options).await)
}

fn engine_on(embedded: Fixture, store: Store) -> (Engine, TempDir) {
    let ports = Ports {
        store,
        queue: Arc::<LossyQueue>::default(),
        ..embedded.ports
    };
    let registry = Arc::new(Registry::new().with::<Tick>());
    let engine = Engine::new(ports, registry, EngineSettings::default(), "test");
    (engine, embedded.folder)
}

#[tokio::test]
async fn a_submission_whose_wait_for_the_standby_was_ended_is_answered_once_the_standby_has_it() {
    let pair = Pair::without_its_standby().await;
    for (before, how) in [(0, CANCEL), (1, TERMINATE)] {
        let answer = pair.submits(&pair.engine, how);
        pair.ends_the_wait(how, before, &answer).await;
        pair.standby.begin();
        answer.await.unwrap().expect("accepted");
        pair.standby.stop();
    }
    let rows = number(&pair.admin, "SELECT count(*) FROM tasks").await;
    assert_eq!(rows, 2, "a task each");
}

#[tokio::test]
async fn a_task_that_the_standby_never_got_was_not_promised_and_is_made_there() {
    let pair = Pair::without_its_standby().await;
    let answer = pair.submits(&pair.engine, "key");
    pair.ends_the_wait(CANCEL, 0, &answer).await;
    pair.fails_over();
    assert_eq!(pair.on_the_standby().await, 0, "it never got there");
    if answer.await.unwrap().is_ok() {
        assert_eq!(pair.on_the_standby().await, 1, "a task that was promised");
    }
    let again = pair.submits(&pair.engine, "key").await.unwrap();
    again.expect("accepted");
    assert_eq!(pair.on_the_standby().await, 1);
}

/// The row of the key is there, and may yet be lost.
#[tokio::test]
async fn a_repeated_key_is_answered_once_the_standby_has_the_first_request() {
    let pair = Pair::without_its_standby().await;
    let first = pair.submits(&pair.engine, "key");
    pair.ends_the_wait(CANCEL, 0, &first).await;
    let repeated = pair.submits(&pair.other, "key");
    eventually("another wait, or an answer", || async {
        (repeated.is_finished() || pair.waiting().await > 1).then_some(())
    })
    .await;
    assert!(!repeated.is_finished() && !first.is_finished());
    pair.standby.begin();
    let (first, repeated) = (first.await.unwrap(), repeated.await.unwrap());
    assert_eq!(first.expect("accepted"), repeated.expect("the same"));
}

#[tokio::test]
async fn each_change_of_a_batch_whose_wait_was_ended_is_unknown() {
    let pair = Pair::without_its_standby().await;
    let changes: Vec<_> = (0..40).map(|_| submit(row(new_task()))).collect();
    let mut written = Box::pin(join_all(
        changes
            .iter()
            .map(|change| commit(&pair.store, NEW, change)),
    ));
    // The first goes alone, and the others together, in several statements at most.
    let answers = loop {
        tokio::select! {
            biased;
            answers = &mut written => break answers,
            () = pair.until_waiting(1) => pair.end_waits(CANCEL).await,
        }
    };
    for answer in answers {
        assert!(
            matches!(answer, Err(CommitError::Store(StoreError::Unknown(_)))),
            "{answer:?}"
        );
    }
}

/// Each of these commits waits at the server until the standby is back, though its caller does not.
#[tokio::test(flavor = "multi_thread")]
async fn commits_that_are_given_up_keep_their_connections_while_the_standby_is_away() {
    let pair = Pair::without_its_standby().await;
    let options = PostgresOptions {
        application_name: "given-up".to_owned(),
        ..options()
    };
    let most = options.connections;
    let store = open(&pair.url, options).await;
    for given_up in 0..30 {
        let (store, change) = (store.clone(), submit(row(new_task())));
        let mut committing = tokio::spawn(async move { commit(&store, NEW, &change).await });
        if given_up == 0 {
            pair.until_waiting(1).await;
        }
        let answer = timeout(Duration::from_millis(50), &mut committing).await;
        assert!(answer.is_err(), "{answer:?}");
        committing.abort();
    }
    let read = store.load(new_task());
    within_limit("a read", read).await.unwrap();
    let ours = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'given-up'";
    let connections = number(&pair.admin, ours).await;
    assert!((2..=most as i64).contains(&connections), "{connections}");
    pair.standby.begin();
    submitted(&store, row(new_task())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_keep_their_leases_while_changes_of_others_wait_for_the_standby() {
    let pair = Pair::without_its_standby().await;
    pair.standby.begin();
    // Two of its connections are for heartbeats.
    let options = PostgresOptions {
        connections: 12,
        ..options()
    };
    let store = open(&pair.url, options).await;
    let mut changed = Vec::new();
    for _ in 0..8 {
        changed.push(claimed(&store, MINUTE).await);
    }
    let healthy = claimed(&store, MINUTE).await.task;
    pair.standby.stop();
    let commits: Vec<_> = changed
        .iter()
        .map(|record| {
            let (store, record) = (store.clone(), record.clone());
            tokio::spawn(async move { commit(&store, leased(&record), &after(&record)).await })
        })
        .collect();
    // The first goes alone, and the others together.
    pair.until_waiting(2).await;
    let beats: Vec<_> = changed
        .iter()
        .map(|record| {
            let (store, task) = (store.clone(), record.task.clone());
            tokio::spawn(async move { store.heartbeat(task.id, task.epoch, MINUTE).await })
        })
        .collect();
    for round in 0..20 {
        let beat = store.heartbeat(healthy.id, healthy.epoch, MINUTE);
        let beat = timeout(Duration::from_secs(3), beat).await;
        let beat = beat.unwrap_or_else(|_| panic!("round {round}: no answer in time"));
        assert!(matches!(beat, Ok(Heartbeat::Held { .. })), "{beat:?}");
    }
    pair.standby.begin();
    for written in join_all(commits).await {
        written.unwrap().expect("written");
    }
    // Held, or asked again: none is lost.
    for beat in join_all(beats).await {
        let beat = beat.unwrap();
        assert!(!matches!(beat, Ok(Heartbeat::Lost)), "{beat:?}");
    }
}

/// The time of a client is over: it is not kept waiting as long as the server may take for a look.
#[tokio::test]
async fn a_client_is_answered_in_its_time_while_a_look_waits_for_the_standby() {
    let pair = Pair::without_its_standby().await;
    let clock = TestClock::new();
    let (engine, _folder) = engine_under(&pair.proxy.url(&pair.url), &clock, options()).await;
    let answer = pair.submits(&engine, "key");
    pair.until_waiting(1).await;
    pair.end_waits(CANCEL).await;
    eventually("a look that waits", || async {
        clock.advance("100ms");
        (pair.waiting().await > 0).then_some(())
    })
    .await;
    clock.advance("6s");
    let answer = timeout(Duration::from_secs(10), answer).await;
    let answer = answer.expect("an answer in time").unwrap();
    assert!(
        matches!(answer, Err(SubmitError::Store(StoreError::Unknown(_)))),
        "{answer:?}"
    );
}

/// What a look finds is as old as its beginning, and it ends with the wait of the commit itself.
#[tokio::test]
async fn a_submission_without_an_answer_is_not_called_refused_because_a_later_try_was() {
    let pair = Pair::without_its_standby().await;
    let clock = TestClock::new();
    let brief = PostgresOptions {
        lock_timeout: Duration::from_millis(300),
        ..options()
    };
    let (engine, _folder) = engine_under(&pair.proxy.url(&pair.url), &clock, brief).await;
    let answer = pair.submits(&engine, "key");
    pair.until_waiting(1).await;
    // Its commit waits on, without a connection that takes its answer. The next ones wait for its locks.
    pair.proxy.redirect(pair.primary.port());
    // Until its patience is over, and not so long that a look has no time.
    let mut advances = 0..8;
    eventually("a look that waits, or an answer", || {
        if advances.next().is_some() {
            clock.advance("1s");
        }
        async { (answer.is_finished() || pair.waiting().await > 1).then_some(()) }
    })
    .await;
    pair.standby.begin();
    let answer = answer.await.unwrap();
    if let Err(error) = &answer {
        let unknown = matches!(error, SubmitError::Store(StoreError::Unknown(_)));
        assert!(unknown, "{error:?}");
    }
    eventually("its task", || async {
        let tasks = number(&pair.admin, "SELECT count(*) FROM tasks").await;
        (tasks == 1).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_role_whose_commits_do_not_wait_for_the_standby_is_named() {
    let pair = Pair::without_its_standby().await;
    let store = PostgresStore::look(&pair.url, &options()).unwrap();
    let found = || async {
        let found = store.examine(Some(1)).await.expect("an answer");
        let codes = found.iter().map(|finding| finding.code);
        codes.filter(|code| *code == "postgres_standby").count()
    };
    assert_eq!(found().await, 0);
    let local = "BEGIN; SET LOCAL synchronous_commit = local; ALTER ROLE postgres SET synchronous_commit = local; COMMIT";
    pair.admin.batch_execute(local).await.expect("a setting");
    assert_eq!(found().await, 1);
}

/// The one that takes writes has refused the password, say, and the other one is a standby.
#[tokio::test]
async fn of_several_servers_each_is_named_with_its_own_error() {
    let url = database().await;
    let port = shared_postgres().port();
    let both = format!("no_such_role@127.0.0.1:{port},127.0.0.1:1/");
    let url = url.replace(&format!("postgres@127.0.0.1:{port}/"), &both);
    let error = PostgresStore::open(&url, options()).await.unwrap_err();
    let text = error.to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines[1].contains(&format!("port {port}: ")), "{text}");
    assert!(
        lines[1].contains("\"no_such_role\" does not exist"),
        "{text}"
    );
    assert!(lines[2].contains("port 1: "), "{text}");
    assert!(lines[2].contains("refused"), "{text}");
}

/// In the order of the list, of which the first is a standby.
#[tokio::test]
async fn of_several_servers_the_one_that_takes_writes_is_used_and_another_within_five_seconds() {
    let primary = Postgres::primary();
    let url = primary.database();
    PostgresStore::migrate(&url, &options()).await.unwrap();
    let standby = primary.standby("s1", primary.port());
    primary.commits_wait_for(Some("s1"));
    let both = format!(":{},127.0.0.1:{}/", standby.port(), primary.port());
    let store = open(
        &url.replace(&format!(":{}/", primary.port()), &both),
        options(),
    )
    .await;
    let first = submitted(&store, row(new_task())).await;
    let position = || store.server_in_use().map(|it| (it.position, it.of));
    assert_eq!(position(), Some((2, 2)));
    primary.kill();
    standby.promote();
    let promoted = Instant::now();
    let second = submit(row(new_task()));
    while commit(&store, NEW, &second).await.is_err() {
        assert!(promoted.elapsed() < Duration::from_secs(5), "still away");
    }
    assert_eq!(position(), Some((1, 2)));
    let found = load(&store, first.task.id).await;
    assert_eq!(found.task, first.task, "it was replicated");
}

/// Of the same code and severity, also from the end of the transaction.
#[tokio::test]
async fn the_warnings_of_a_users_own_statements_change_nothing() {
    let url = database().await;
    let store = open(&url, options()).await;
    let admin = raw(&url).await;
    admin
        .batch_execute(
            "CREATE TABLE noisy (n INTEGER);
             CREATE FUNCTION warn() RETURNS TRIGGER LANGUAGE plpgsql AS
               $$ BEGIN RAISE WARNING 'canceling wait' USING ERRCODE = '01000'; RETURN NULL; END $$;
             CREATE TRIGGER at_once AFTER INSERT ON noisy FOR EACH ROW EXECUTE FUNCTION warn();
             CREATE CONSTRAINT TRIGGER at_the_end AFTER INSERT ON noisy DEFERRABLE INITIALLY DEFERRED
               FOR EACH ROW EXECUTE FUNCTION warn()",
        )
        .await
        .unwrap();
    let record = submitted(&store, row(new_task())).await;
    let mut change = after(&record);
    change.sql = vec![Sql::new("INSERT INTO noisy VALUES (1)").rows(1)];
    commit(&store, free(&record), &change)
        .await
        .expect("written");
    assert_eq!(number(&admin, "SELECT count(*) FROM noisy").await, 1);
}
