//! Messages that no commit has sent, on a real server: garbage, too much of it, of another task, of
//! code that this program has not, of code that panics. Each is settled, and the host goes on.

use super::engine::*;
use super::*;
use crate::suite::eventually;
use counterstep_contracts::dead_letter::PoisonView;
use counterstep_contracts::{Rev, TaskStatus, Tenant, WaitReason};
use counterstep_kernel::dead_letters::poison;
use counterstep_kernel::ports::OutboxOp;
use counterstep_kernel::{Engine, EngineSettings};
use counterstep_macros::distributed_task;
use counterstep_steps::{DistributedTask, Registry, StepContext, StepResult};
use counterstep_testkit::{Form, form};
use futures::StreamExt;

struct Wink;

#[distributed_task(name = "Wink", queue = "winks")]
impl Wink {
    type Request = GreetRequest;
    type Response = Greeting;

    #[step(1, host = "worker")]
    #[pure]
    async fn wink(_ctx: &StepContext) -> StepResult<Greeting> {
        Ok(Greeting(";)".to_owned()))
    }

    fn respond(wink: &Greeting) -> Greeting {
        wink.clone()
    }
}

/// What hosts answer to deliveries, as the server is sent it.
struct Settlements(async_nats::Subscriber);

impl Settlements {
    async fn of(options: &NatsOptions, url: &str) -> Self {
        let client = async_nats::connect(url).await.unwrap();
        let acks = format!("$JS.ACK.{}-work.>", prefix(options));
        let subscriber = client.subscribe(acks).await.unwrap();
        client.flush().await.unwrap();
        Self(subscriber)
    }

    /// The next one. That a message is being worked on settles none.
    async fn next(&mut self) -> String {
        loop {
            let next = tokio::time::timeout(LIMIT, self.0.next()).await;
            let message = next.expect("a settlement").expect("the server is there");
            let said = String::from_utf8(message.payload.to_vec()).expect("text");
            if said != "+WPI" {
                return said;
            }
        }
    }
}

fn host<T: DistributedTask>(fixture: &Fixture) -> Engine {
    Engine::new(
        fixture.ports.clone(),
        Arc::new(Registry::new().with::<T>()),
        EngineSettings::default(),
        "worker",
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn poison_becomes_one_row_and_never_comes_again() {
    let options = apart();
    let fixture = fixture_of(open(options.clone()).await).await;
    let engine = engine(&fixture);
    let plain = plain(&shared_nats().url()).await;
    let subject = format!("{}.work.files.Greet.v1", prefix(&options));
    plain
        .publish(subject.clone(), "not json".into())
        .await
        .unwrap()
        .await
        .unwrap();
    let stream = plain
        .get_stream(format!("{}-work", prefix(&options)))
        .await
        .unwrap();
    served(&engine, async {
        eventually("an empty stream", || async {
            (stream.get_info().await.unwrap().state.messages == 0).then_some(())
        })
        .await;
        // The host continues with what it can read.
        let task = form::submit(&engine, Form::new().field("secret", "x")).await;
        completed(&engine, task).await;
    })
    .await;
    let kept = poison::list(&engine.ports.store).await.unwrap();
    let found: Vec<_> = kept
        .iter()
        .map(|one| (&*one.queue, &*one.subject, &*one.payload))
        .collect();
    assert_eq!(found, [("files", &*subject, "not json")]);
    assert_eq!(
        engine
            .ports
            .store
            .outbox(OutboxOp::Take {
                older_than: Duration::ZERO,
                limit: 9
            })
            .await
            .unwrap(),
        []
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_contradicts_the_row_of_its_task_is_kept_as_poison_and_moves_nothing() {
    let options = apart();
    let fixture = fixture_of(open(options.clone()).await).await;
    let task = form::submit(&engine(&fixture), Form::new().field("secret", "x")).await;
    let before = fixture.ports.store.load(task).await.unwrap().unwrap().task;
    // A host that could run the task, and that does not serve its queue.
    let registry = Arc::new(Registry::new().with::<Wink>().with::<Greet>());
    let host = Engine::new(
        fixture.ports.clone(),
        registry,
        EngineSettings::default(),
        "worker",
    );
    let honest = WorkerMessage {
        task_type: "Greet".into(),
        ..message(task, before.rev.0)
    };
    let hostile = [
        ("winks", honest.clone()),
        (
            "winks",
            WorkerMessage {
                task_type: "Wink".into(),
                ..honest.clone()
            },
        ),
        (
            "winks",
            WorkerMessage {
                task_type: "\u{1b}[2J\n".repeat(1000),
                ..honest.clone()
            },
        ),
        (
            "winks",
            WorkerMessage {
                rev: Rev(i64::MIN),
                ..honest.clone()
            },
        ),
        (
            "winks",
            WorkerMessage {
                rev: Rev(i64::MAX),
                ..honest.clone()
            },
        ),
        (
            "files",
            WorkerMessage {
                version: 2,
                ..honest.clone()
            },
        ),
        (
            "files",
            WorkerMessage {
                version: u32::MAX,
                task_type: "Wink".into(),
                ..honest.clone()
            },
        ),
        (
            "files",
            WorkerMessage {
                tenant: Some(Tenant("other".into())),
                ..honest.clone()
            },
        ),
        // Of no task: there is no row to hold it against, and nothing to do.
        (
            "winks",
            WorkerMessage {
                task: new_task(),
                ..honest
            },
        ),
    ];
    let plain = plain(&shared_nats().url()).await;
    let subject = |queue: &str| format!("{}.work.{queue}.Greet.v1", prefix(&options));
    let stream = plain
        .get_stream(format!("{}-work", prefix(&options)))
        .await
        .unwrap();
    // What was submitted is for another host, and not what this is about.
    stream.purge().await.unwrap();
    for (queue, message) in &hostile {
        let body = serde_json::to_vec(message).unwrap();
        plain
            .publish(subject(queue), body.into())
            .await
            .unwrap()
            .await
            .unwrap();
    }
    served(&host, async {
        eventually("an empty stream", || async {
            (stream.get_info().await.unwrap().state.messages == 0).then_some(())
        })
        .await;
    })
    .await;
    assert_eq!(
        fixture.ports.store.load(task).await.unwrap().unwrap().task,
        before
    );
    let found = poison::list(&fixture.ports.store).await.unwrap();
    assert_eq!(found.len(), 8);
    let body = serde_json::to_string(&hostile[1].1).unwrap();
    let why = "its type is `Wink`, and its task's `Greet`";
    let is_that = |one: &&PoisonView| {
        (&*one.queue, &*one.subject, &*one.payload, &*one.reason)
            == ("winks", &*subject("winks"), &*body, why)
    };
    assert_eq!(found.iter().filter(is_that).count(), 1);
    let is_odd = |one: &PoisonView| one.reason.len() > 200 || one.reason.contains('\u{1b}');
    assert!(!found.iter().any(is_odd), "a client's text goes into a log");
    // The message of a commit still brings the task.
    let honest = WorkerMessage {
        task_type: "Greet".into(),
        ..message(task, before.rev.0)
    };
    let body = serde_json::to_vec(&honest).unwrap();
    plain
        .publish(subject("files"), body.into())
        .await
        .unwrap()
        .await
        .unwrap();
    served(&host, completed(&host, task)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn poison_that_cannot_be_kept_stays_in_the_queue() {
    let options = apart();
    let fixture = fixture_of(open(options.clone()).await).await;
    let engine = engine(&fixture);
    diesel_execute(
        &fixture,
        "CREATE TRIGGER is_full BEFORE INSERT ON documents WHEN NEW.kind = 'poison'
         BEGIN SELECT RAISE(ABORT, 'full'); END",
    );
    let plain = plain(&shared_nats().url()).await;
    let subject = format!("{}.work.files.Greet.v1", prefix(&options));
    plain
        .publish(subject, "not json".into())
        .await
        .unwrap()
        .await
        .unwrap();
    let stream = plain
        .get_stream(format!("{}-work", prefix(&options)))
        .await
        .unwrap();
    served(&engine, async {
        eventually("a delivery that was put off", || async {
            let info = stream.consumer_info("files").await.ok()?;
            (info.delivered.consumer_sequence > 0 && info.num_waiting > 0).then_some(())
        })
        .await;
    })
    .await;
    assert_eq!(stream.get_info().await.unwrap().state.messages, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_2_mb_becomes_a_poison_row_and_the_consumer_goes_on() {
    let server = counterstep_testkit::servers::Nats::with_lines("max_payload: 4MB");
    let options = NatsOptions {
        prefix: Some("large".to_owned()),
        ..NatsOptions::new(server.url())
    };
    let fixture = fixture_of(open(options.clone()).await).await;
    let engine = engine(&fixture);
    let mut settled = Settlements::of(&options, &server.url()).await;
    let plain = plain(&server.url()).await;
    let subject = "large.work.files.Greet.v1";
    let large = vec![b'x'; 2 << 20];
    let published = plain.publish(subject, large.into()).await.unwrap();
    published.await.unwrap();
    served(&engine, async {
        let answer = settled.next().await;
        assert!(answer.starts_with("+TERM"), "{answer}");
        let task = form::submit(&engine, Form::new().field("secret", "x")).await;
        completed(&engine, task).await;
    })
    .await;
    let [kept] = &poison::list(&fixture.ports.store).await.unwrap()[..] else {
        panic!("one message");
    };
    assert_eq!(
        (&*kept.queue, kept.size_bytes, kept.payload.len()),
        ("files", 2 << 20, 64 * 1024)
    );
    assert!(kept.reason.starts_with("it has 2097152 bytes"), "{kept:?}");
}

/// The second version of [`Greet`].
struct GreetTwo;

#[distributed_task(name = "Greet", version = 2, queue = "files")]
impl GreetTwo {
    type Request = GreetRequest;
    type Response = Greeting;

    #[step(1, host = "worker")]
    #[pure]
    async fn greet(_ctx: &StepContext) -> StepResult<Greeting> {
        Ok(Greeting("good day".to_owned()))
    }

    fn respond(greet: &Greeting) -> Greeting {
        greet.clone()
    }
}

/// Of the same queue as [`Greet`].
struct Wave;

#[distributed_task(name = "Wave", queue = "files")]
impl Wave {
    type Request = GreetRequest;
    type Response = Greeting;

    #[step(1, host = "worker")]
    #[pure]
    async fn wave(_ctx: &StepContext) -> StepResult<Greeting> {
        Ok(Greeting("o/".to_owned()))
    }

    fn respond(wave: &Greeting) -> Greeting {
        wave.clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_of_a_version_that_the_host_has_not_waits_and_runs_under_its_own() {
    let options = apart();
    let fixture = fixture_of(open(options.clone()).await).await;
    let mut settled = Settlements::of(&options, &shared_nats().url()).await;
    let first = engine(&fixture);
    let task = form::submit(&first, Form::new().field("secret", "x")).await;
    // It waits in its row until a host that knows the version looks: its message is done with.
    let second = host::<GreetTwo>(&fixture);
    let answer = served(&second, settled.next()).await;
    assert_eq!(answer, "+ACK");
    let record = fixture.ports.store.load(task).await.unwrap().unwrap();
    assert_eq!(
        (record.task.status, record.task.waiting),
        (TaskStatus::Waiting, Some(WaitReason::Version))
    );
    assert_eq!(
        record.steps[0].attempts.0, 0,
        "no code of another version ran"
    );
    let poll = Duration::from_millis(20);
    served_with(&first, poll, completed(&first, task)).await;
    let record = fixture.ports.store.load(task).await.unwrap().unwrap();
    assert_eq!(record.task.response, Some("hello x".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_of_a_type_that_the_host_has_not_is_put_off_and_left_as_it_is() {
    let options = apart();
    let fixture = fixture_of(open(options.clone()).await).await;
    let mut settled = Settlements::of(&options, &shared_nats().url()).await;
    let knows = engine(&fixture);
    let task = form::submit(&knows, Form::new().field("secret", "x")).await;
    let before = fixture.ports.store.load(task).await.unwrap().unwrap().task;
    let stranger = host::<Wave>(&fixture);
    let answer = served(&stranger, settled.next()).await;
    assert_eq!(answer, r#"-NAK {"delay":10000000000}"#);
    let after = fixture.ports.store.load(task).await.unwrap().unwrap().task;
    assert_eq!(after, before);
    let plain = plain(&shared_nats().url()).await;
    let stream = plain.get_stream(format!("{}-work", prefix(&options)));
    let mut stream = stream.await.unwrap();
    let messages = stream.info().await.unwrap().state.messages;
    assert_eq!(messages, 1, "it comes again");
    let raw = stream.get_raw_message(1).await.unwrap();
    let sent = serde_json::from_slice::<WorkerMessage>(&raw.payload).unwrap();
    assert_eq!(sent.tenant, Some(before.tenant));
    let poll = Duration::from_millis(20);
    served_with(&knows, poll, completed(&knows, task)).await;
}

struct Hazard;

#[distributed_task(name = "Hazard", queue = "files")]
impl Hazard {
    type Request = GreetRequest;
    type Response = Greeting;

    #[step(1, host = "worker")]
    #[pure]
    async fn touch(_ctx: &StepContext, req: &GreetRequest) -> StepResult<Greeting> {
        assert!(req.secret != "panics", "a bug in a step");
        Ok(Greeting(req.secret.clone()))
    }

    fn respond(touch: &Greeting) -> Greeting {
        touch.clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_panics_fails_its_attempt_and_the_host_goes_on() {
    let options = apart();
    let fixture = fixture_of(open(options.clone()).await).await;
    let mut settled = Settlements::of(&options, &shared_nats().url()).await;
    let engine = host::<Hazard>(&fixture);
    let panics = form::submit(&engine, Form::new().field("secret", "panics")).await;
    served(&engine, async {
        assert_eq!(settled.next().await, "+ACK");
        let task = form::submit(&engine, Form::new().field("secret", "x")).await;
        completed(&engine, task).await;
    })
    .await;
    let record = fixture.ports.store.load(panics).await.unwrap().unwrap();
    assert_eq!(record.task.status, TaskStatus::Failed);
    assert_eq!(record.steps[0].attempts.0, 1);
    let failure = record.task.failure.expect("a failure");
    assert_eq!(failure.class, "panicked");
    assert!(failure.message.contains("a bug in a step"), "{failure:?}");
    assert_eq!(poison::list(&fixture.ports.store).await.unwrap(), []);
}
