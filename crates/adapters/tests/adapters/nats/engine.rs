//! The engine on NATS: events that other services hear, the relay.

use super::*;
use crate::suite::eventually;
use counterstep_contracts::{Host, TaskStatus};
use counterstep_kernel::host::{HostSettings, serve};
use counterstep_kernel::{Engine, EngineSettings};
use counterstep_macros::distributed_task;
use counterstep_reconciler::relay;
use counterstep_steps::times::DbTime;
use counterstep_steps::{CancelReason, CancelToken, Registry, StepContext, StepResult};
use counterstep_testkit::{Form, form};
use diesel::prelude::*;
use futures::StreamExt;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct GreetRequest {
    pub(super) secret: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Greeting(pub(super) String);

pub(crate) struct Greet;

#[distributed_task(name = "Greet", queue = "files")]
impl Greet {
    type Request = GreetRequest;
    type Response = Greeting;

    #[step(1, host = "worker")]
    #[pure]
    async fn greet(_ctx: &StepContext, req: &GreetRequest) -> StepResult<Greeting> {
        Ok(Greeting(format!("hello {}", req.secret)))
    }

    fn respond(greet: &Greeting) -> Greeting {
        greet.clone()
    }
}

pub(super) fn engine(fixture: &Fixture) -> Engine {
    let settings = EngineSettings {
        events: true,
        ..EngineSettings::default()
    };
    Engine::new(
        fixture.ports.clone(),
        Arc::new(Registry::new().with::<Greet>()),
        settings,
        "worker",
    )
}

/// Serves the queue while `work` goes on. A message must bring the task, and not the poll.
pub(super) async fn served<T>(engine: &Engine, work: impl Future<Output = T>) -> T {
    served_with(engine, LIMIT, work).await
}

pub(super) async fn served_with<T>(
    engine: &Engine,
    poll: Duration,
    work: impl Future<Output = T>,
) -> T {
    let mut settings = HostSettings::for_all(&engine.registry, Host::Worker, 4);
    settings.poll = poll;
    settings.unclaimed_for = Duration::ZERO;
    let shutdown = CancelToken::new();
    let spawn = Arc::new(|work| drop(tokio::spawn(work)));
    let serving = tokio::spawn(serve(engine.clone(), settings, shutdown.clone(), spawn));
    let result = work.await;
    shutdown.cancel(CancelReason::Shutdown);
    serving.await.unwrap();
    result
}

pub(super) async fn completed(engine: &Engine, task: TaskId) {
    eventually("a completed task", || async {
        let record = engine.ports.store.load(task).await.unwrap().unwrap();
        (record.task.status == TaskStatus::Completed).then_some(())
    })
    .await;
}

pub(super) fn count(fixture: &Fixture, query: &str) -> i64 {
    #[derive(QueryableByName)]
    struct Number {
        #[diesel(sql_type = diesel::sql_types::BigInt)]
        n: i64,
    }
    let path = fixture._folder.path().join("data/counterstep.db");
    let mut connection = SqliteConnection::establish(path.to_str().unwrap()).unwrap();
    diesel::sql_query(query)
        .get_result::<Number>(&mut connection)
        .unwrap()
        .n
}

#[tokio::test(flavor = "multi_thread")]
async fn every_change_is_told_to_a_plain_subscriber() {
    let options = apart();
    let fixture = fixture_of(open(options.clone()).await).await;
    let engine = engine(&fixture);
    let client = async_nats::connect(shared_nats().url()).await.unwrap();
    let mut events = client
        .subscribe(format!("{}.events.Greet.>", prefix(&options)))
        .await
        .unwrap();
    client.flush().await.unwrap();
    let form = Form::new().field("secret", "hunter2");
    let task = served(&engine, async {
        let task = form::submit(&engine, form).await;
        completed(&engine, task).await;
        task
    })
    .await;

    let audit = engine.ports.store.history(task).await.unwrap().audit;
    let mut told = Vec::new();
    while told.len() < audit.len() {
        let message = tokio::time::timeout(LIMIT, events.next())
            .await
            .expect("an event")
            .unwrap();
        let event: Value = serde_json::from_slice(&message.payload).unwrap();
        assert_eq!(
            message
                .headers
                .unwrap()
                .get("Nats-Msg-Id")
                .unwrap()
                .as_str(),
            event["id"]
        );
        let subject = format!(
            "{}.events.Greet.{}",
            prefix(&options),
            event["data"]["event"].as_str().unwrap()
        );
        assert_eq!(message.subject.as_str(), subject);
        assert!(
            !event.to_string().contains("hunter2"),
            "a request went out: {event}"
        );
        told.push(event);
    }
    told.sort_by_key(|event| event["data"]["seq"].as_i64());
    for (event, row) in told.iter().zip(&audit) {
        assert_eq!(event["specversion"], "1.0");
        assert_eq!(event["id"], format!("{task}/{}", row.seq));
        assert_eq!(event["source"], "/counterstep/Greet");
        assert_eq!(
            event["type"],
            format!("counterstep.task.{}", row.entry.event)
        );
        assert_eq!(event["subject"], task.to_string());
        assert_eq!(event["time"], counterstep_steps::times::rfc3339(row.at));
        assert_eq!(event["data"]["status"]["to"], row.entry.to.as_str());
        assert_eq!(event["data"]["actor"], row.entry.actor);
    }
    let last = told.last().unwrap();
    assert_eq!(
        last["data"]["status"],
        serde_json::json!({ "from": "running", "to": "completed" }),
        "{last}"
    );
    assert!(
        told.iter()
            .any(|event| event["data"]["step"]["name"] == "greet")
    );

    // All of it is published, and the relay has nothing to say twice.
    assert_eq!(count(&fixture, "SELECT count(*) AS n FROM outbox"), 0);
    assert_eq!(
        relay::run(&engine, Duration::ZERO, 100, &CancelToken::new())
            .await
            .unwrap(),
        0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_events_that_is_gone_is_made_again_though_somebody_listens() {
    let options = NatsOptions {
        timeout: Duration::from_millis(500),
        ..apart()
    };
    let nats = open(options.clone()).await;
    let plain = plain(&shared_nats().url()).await;
    let _listener = plain
        .client()
        .subscribe(format!("{}.events.>", prefix(&options)))
        .await
        .unwrap();
    let tell = || {
        let nats = nats.clone();
        async move {
            nats.queue()
                .publish_events(DbTime(0), &[event(new_task(), 1)])
                .await
                .ok()
        }
    };
    eventually("an event", tell).await;
    plain
        .delete_stream(format!("{}-events", prefix(&options)))
        .await
        .unwrap();
    assert_eq!(tell().await, None, "no stream has kept it");
    eventually("an event in the new stream", tell).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_could_not_be_published_the_relay_publishes_and_hosts_look_for_the_task() {
    let server = counterstep_testkit::servers::Nats::start();
    let options = NatsOptions {
        timeout: Duration::from_secs(5),
        ..NatsOptions::new(server.url())
    };
    let fixture = fixture_of(open(options).await).await;
    let engine = engine(&fixture);
    server.stop();
    let task = form::submit(&engine, Form::new().field("secret", "x")).await;
    assert_eq!(
        relay::run(&engine, Duration::ZERO, 100, &CancelToken::new())
            .await
            .unwrap(),
        0
    );
    server.begin();
    eventually("health", || async { fixture.nats.healthy().await.ok() }).await;
    // A relay that failed has hidden the rows for a while: no other is to try meanwhile.
    diesel_execute(&fixture, "UPDATE outbox SET visible_at = 0");
    assert_eq!(
        relay::run(&engine, Duration::ZERO, 100, &CancelToken::new())
            .await
            .unwrap(),
        1,
        "the submission's events"
    );
    served_with(&engine, Duration::from_millis(20), completed(&engine, task)).await;
}

pub(super) fn diesel_execute(fixture: &Fixture, query: &str) {
    let path = fixture._folder.path().join("data/counterstep.db");
    let mut connection = SqliteConnection::establish(path.to_str().unwrap()).unwrap();
    diesel::sql_query("PRAGMA busy_timeout = 5000")
        .execute(&mut connection)
        .unwrap();
    diesel::sql_query(query).execute(&mut connection).unwrap();
}
