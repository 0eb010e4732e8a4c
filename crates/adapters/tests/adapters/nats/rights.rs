//! The users of `deploy/nats/accounts.conf`: enough for the work of each kind of process, and what the
//! server refuses them.

use super::*;
use crate::suite::eventually;
use async_nats::{Client, ConnectOptions, Event};
use counterstep_adapters::nats::{Hears, NatsAuth};
use counterstep_kernel::ports::{DeniedConsumer, QueueRepair};
use counterstep_testkit::servers::Nats as Server;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

const ACCOUNTS: &str = include_str!("../../../../../deploy/nats/accounts.conf");
const PASSWORD: &str = "planted-password";

fn accounts() -> String {
    let passwords = ["API", "WORKER", "RECONCILER", "OPERATOR"];
    let of = |text: String, kind: &&str| {
        text.replace(&format!("$COUNTERSTEP_NATS_{kind}_PASSWORD"), PASSWORD)
    };
    passwords.iter().fold(ACCOUNTS.to_owned(), of)
}

fn server() -> Server {
    Server::with_lines(&accounts())
}

/// As the settings of `deploy/` have it. `command`: what asks for the answers.
fn options(server: &Server, kind: &str, command: &str) -> (NatsOptions, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let password_file = folder.path().join("password");
    std::fs::write(&password_file, PASSWORD).unwrap();
    let user = format!("counterstep-{kind}");
    let options = NatsOptions {
        auth: NatsAuth::UserPassword {
            user,
            password_file,
        },
        create_streams: kind == "reconciler",
        inbox: format!("_INBOX.{command}"),
        timeout: Duration::from_secs(2),
        hears: match kind {
            "worker" => Hears::Cancels,
            _ => Hears::Everything,
        },
        ..NatsOptions::new(server.url())
    };
    (options, folder)
}

async fn process(server: &Server, kind: &str) -> Nats {
    let (options, _folder) = options(server, kind, kind);
    open(options).await
}

fn queue(name: &str) -> QueueName {
    QueueName(name.to_owned())
}

const QUEUE: &str = "file-processing";

#[tokio::test(flavor = "multi_thread")]
async fn each_kind_of_process_can_do_its_work() {
    let server = server();
    let (api, worker) = (
        process(&server, "api").await,
        process(&server, "worker").await,
    );
    let missing = api
        .queue()
        .publish(&queue(QUEUE), &message(new_task(), 1))
        .await;
    let missing = missing.expect_err("there is no stream").to_string();
    assert!(
        missing.contains("`counterstep-work` is missing")
            && missing.contains("start the reconciler"),
        "{missing}"
    );
    let reconciler = process(&server, "reconciler").await;
    let queues = [QUEUE, "file-processing.api"].map(queue);
    reconciler
        .prepare(queues.to_vec(), Events::Published)
        .await
        .unwrap();
    // It finds what is gone, and makes it again.
    let mended = reconciler
        .queue()
        .repair(&[queue("orders")], QueueRepair::Mend)
        .await;
    assert_eq!(mended.unwrap(), ["the consumer of queue `orders`"]);
    for (publisher, consumer, at) in [
        (&api, &worker, QUEUE),
        (&reconciler, &worker, QUEUE),
        (&worker, &worker, QUEUE),
        (&worker, &api, "file-processing.api"),
        (&worker, &worker, "orders"),
        (&reconciler, &worker, "video-processing"),
    ] {
        let task = new_task();
        publisher
            .queue()
            .publish(&queue(at), &message(task, 1))
            .await
            .unwrap();
        let found = consumer
            .queue()
            .fetch(&[queue(at)], 1, LIMIT)
            .await
            .unwrap();
        assert_eq!(task_of(&found[0]), task, "{at}");
        let settle = consumer
            .queue()
            .settle(&found[0].tag, Settle::Progress)
            .await;
        settle.unwrap();
        ack(consumer, &found[0]).await;
    }
    for nats in [&api, &worker, &reconciler] {
        nats.queue()
            .publish_events(counterstep_steps::times::DbTime(0), &[event(new_task(), 1)])
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_that_are_missing_are_named_and_those_of_the_users_are_enough() {
    let server = server();
    let lanes = |name| vec![queue(name), queue(name).backlog()];
    for (kind, own) in [
        ("api", vec![queue("file-processing.api")]),
        ("worker", lanes(QUEUE)),
        ("worker", lanes("orders")),
    ] {
        let nats = process(&server, kind).await;
        assert_eq!(nats.missing_rights(&own).await, Ok(vec![]), "{kind}");
    }
    let worker = process(&server, "worker").await;
    let own = [queue("orders"), queue("book-seat")];
    let missing = worker.missing_rights(&own).await.unwrap();
    let expected = [
        "$JS.API.CONSUMER.CREATE.counterstep-work.book-seat.work.book-seat.*.*",
        "$JS.API.CONSUMER.DELETE.counterstep-work.book-seat",
        "$JS.API.CONSUMER.INFO.counterstep-work.book-seat",
        "$JS.API.CONSUMER.MSG.NEXT.counterstep-work.book-seat",
        "$JS.ACK.counterstep-work.book-seat.>",
    ];
    assert_eq!(missing, expected);
    assert_eq!(
        worker.queue().refused(),
        Vec::<String>::new(),
        "a look leaves none"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_at_rights_changes_no_consumer_and_takes_no_message() {
    let server = server();
    let reconciler = process(&server, "reconciler").await;
    reconciler
        .prepare(vec![queue(QUEUE)], Events::None)
        .await
        .unwrap();
    let worker = process(&server, "worker").await;
    let task = new_task();
    let publishing = worker.queue();
    publishing
        .publish(&queue(QUEUE), &message(task, 1))
        .await
        .unwrap();
    let looked = worker.missing_rights(&[queue(QUEUE)]).await;
    assert_eq!(looked, Ok(vec![]));
    let found = worker
        .queue()
        .fetch(&[queue(QUEUE)], 1, LIMIT)
        .await
        .unwrap();
    assert_eq!(task_of(&found[0]), task);
    assert!(found[0].is_first, "delivered once");
    ack(&worker, &found[0]).await;
    let found = reconciler
        .queue()
        .repair(&[queue(QUEUE)], QueueRepair::Look)
        .await;
    assert_eq!(found.unwrap(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_is_refused_holds_up_no_other_one_and_is_named_for_readiness() {
    let server = server();
    let reconciler = process(&server, "reconciler").await;
    let (served, refused) = (queue("orders"), queue("book-seat"));
    reconciler
        .prepare(vec![served.clone(), refused.clone()], Events::None)
        .await
        .unwrap();
    let worker = process(&server, "worker").await;
    let task = new_task();
    let publishing = reconciler.queue();
    publishing
        .publish(&served, &message(task, 1))
        .await
        .unwrap();
    // Each fetch gives the refused queue its turn first or second: neither keeps the other's message back.
    let both = [refused.clone(), served.clone()];
    let found = worker.queue().fetch(&both, 1, LIMIT).await.unwrap();
    assert_eq!(task_of(&found[0]), task);
    ack(&worker, &found[0]).await;
    let creation = "$JS.API.CONSUMER.CREATE.counterstep-work.book-seat.work.book-seat.*.*";
    assert_eq!(worker.queue().refused(), [creation]);
    let denied = worker.queue().denied_consumers();
    assert_eq!(denied.len(), 1, "{denied:?}");
    let consumer = DeniedConsumer {
        name: "book-seat".to_owned(),
        subject: creation.to_owned(),
    };
    assert_eq!(
        (&denied[0].queue, &denied[0].consumer),
        (&refused, &Some(consumer))
    );
    let alone = worker
        .queue()
        .fetch(&[refused], 1, LIMIT)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        alone.contains(creation) && alone.contains("deploy render"),
        "{alone}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_is_there_and_forbidden_is_named_until_the_server_answers_again() {
    let fetching = "$JS.API.CONSUMER.MSG.NEXT.counterstep-work.orders";
    let allowed = accounts();
    let denied = allowed.replace(&format!("\"{fetching}\""), "");
    let server = Server::with_lines(&denied);
    let (reconciler, orders) = (process(&server, "reconciler").await, queue("orders"));
    reconciler
        .prepare(vec![orders.clone()], Events::None)
        .await
        .unwrap();
    let worker = process(&server, "worker").await.queue();
    let fetch = || worker.fetch(std::slice::from_ref(&orders), 1, SHORT);
    let found = eventually("a refusal", || async {
        fetch().await.unwrap();
        worker.denied_consumers().pop()
    })
    .await;
    let consumer = found.consumer.expect("a consumer");
    assert_eq!(
        (found.queue, &*consumer.name, &*consumer.subject),
        (orders.clone(), "orders", fetching)
    );

    let file = server.folder().join("nats.conf");
    let settings = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, settings.replace(&denied, &allowed)).unwrap();
    let pid = server.pid().expect("it runs").to_string();
    let reload = std::process::Command::new("kill")
        .args(["-HUP", &pid])
        .status();
    assert!(reload.unwrap().success());
    eventually("a fetch that works", || async {
        fetch().await.ok()?;
        worker.denied_consumers().is_empty().then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn people_who_look_see_streams_and_consumers() {
    let server = server();
    let reconciler = process(&server, "reconciler").await;
    let queues = vec![queue(QUEUE)];
    reconciler.prepare(queues, Events::Published).await.unwrap();
    let (options, _folder) = options(&server, "operator", "doctor");
    let looks = Nats::look(options).await.unwrap();
    looks.examine(None).await.unwrap();
}

/// What the server tells a client that it has refused.
struct Refusals(UnboundedReceiver<String>);

impl Refusals {
    async fn next(&mut self) -> String {
        let next = tokio::time::timeout(LIMIT, self.0.recv()).await;
        next.expect("a refusal").expect("a connection")
    }
}

async fn connect(server: &Server, kind: &str) -> (Client, Refusals) {
    let (to, from) = unbounded_channel();
    let options =
        ConnectOptions::with_user_and_password(format!("counterstep-{kind}"), PASSWORD.to_owned());
    let options = options.event_callback(move |event| {
        if let Event::ServerError(error) = event {
            let _ = to.send(error.to_string().to_lowercase());
        }
        std::future::ready(())
    });
    (options.connect(server.url()).await.unwrap(), Refusals(from))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_refuses_each_user_what_is_no_part_of_its_work() {
    let server = server();
    let of_all = [
        "$JS.API.STREAM.DELETE.counterstep-work",
        "$JS.API.STREAM.PURGE.counterstep-work",
        "$JS.API.STREAM.UPDATE.counterstep-work",
        "$JS.API.STREAM.MSG.DELETE.counterstep-work",
        "$JS.API.STREAM.MSG.GET.counterstep-work",
        "$JS.API.STREAM.DELETE.counterstep-events",
        "$JS.API.STREAM.CREATE.other",
        "$JS.API.STREAM.SNAPSHOT.counterstep-work",
        "$JS.API.CONSUMER.CREATE.counterstep-events.spy.events.>",
        "$JS.ACK.counterstep-work.other.1.1.1.1.1",
        "_INBOX.worker.x",
        "anything",
    ];
    let no_streams = [
        "$JS.API.STREAM.CREATE.counterstep-work",
        "$JS.API.STREAM.CREATE.counterstep-events",
        // A consumer of its own name for the messages of another queue.
        "$JS.API.CONSUMER.CREATE.counterstep-work.file-processing.work.>",
        "$JS.API.CONSUMER.CREATE.counterstep-work.file-processing~api.work.>",
        "$JS.API.CONSUMER.CREATE.counterstep-work.spy.work.spy.*.*",
    ];
    let consume = [
        "$JS.API.CONSUMER.MSG.NEXT.counterstep-work.file-processing",
        "$JS.API.CONSUMER.DELETE.counterstep-work.file-processing",
        "$JS.ACK.counterstep-work.file-processing.1.1.1.1.1",
    ];
    let consume_of_api = consume.map(|subject| subject.replace(QUEUE, "file-processing~api"));
    let publish = [
        "work.file-processing.Zip.v1",
        "events.Zip.x",
        "signal.cancel.x",
    ];
    let texts = |list: &[&str]| list.iter().map(|&it| it.to_owned()).collect::<Vec<_>>();
    for (kind, more) in [
        ("api", [texts(&no_streams), texts(&consume)].concat()),
        (
            "worker",
            [texts(&no_streams), consume_of_api.to_vec()].concat(),
        ),
        (
            "reconciler",
            [texts(&consume), consume_of_api.to_vec()].concat(),
        ),
        (
            "operator",
            [texts(&publish), texts(&no_streams), texts(&consume)].concat(),
        ),
    ] {
        let (client, mut refusals) = connect(&server, kind).await;
        for subject in texts(&of_all).iter().chain(&more) {
            client.publish(subject.clone(), "{}".into()).await.unwrap();
            let refused = refusals.next().await;
            let expected = format!(
                "permissions violation for publish to \"{}\"",
                subject.to_lowercase()
            );
            assert!(refused.contains(&expected), "{kind}: {subject}: {refused}");
        }
        let other = if kind == "api" {
            "_INBOX.worker.>"
        } else {
            "_INBOX.api.>"
        };
        for subject in ["work.>", "events.>", "$JS.ACK.>", "_INBOX.>", ">", other] {
            let _listening = client.subscribe(subject).await.unwrap();
            let refused = refusals.next().await;
            let expected = format!(
                "permissions violation for subscription to \"{}\"",
                subject.to_lowercase()
            );
            assert!(refused.contains(&expected), "{kind}: {subject}: {refused}");
        }
    }
    let wrong =
        ConnectOptions::with_user_and_password("counterstep".to_owned(), PASSWORD.to_owned());
    assert!(
        wrong.connect(server.url()).await.is_err(),
        "a user of no kind"
    );
    assert!(async_nats::connect(server.url()).await.is_err(), "no login");
}
