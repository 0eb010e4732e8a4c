//! What `deploy render` writes, and what it leaves as it is.

use super::render::{Facts, RENDERED, render};
use super::{DeployArgs, DeployCommand, RenderArgs, main};
use counterstep_contracts::QueueName;
use std::path::{Path, PathBuf};

fn queue(name: &str) -> QueueName {
    QueueName(name.to_owned())
}

/// A program with two queues of its own, one of them with a high priority, and tables.
fn shop() -> Facts {
    let (seats, mails) = (queue("seats"), queue("mails"));
    Facts {
        program: "counterstep".to_owned(),
        api: vec![queue("mails.api"), queue("seats.api")],
        workers: vec![
            mails.clone(),
            mails.backlog(),
            seats.clone(),
            seats.urgent(),
            seats.backlog(),
        ],
        tables: vec![("seats".to_owned(), "SELECT, INSERT".to_owned())],
        nats_prefix: None,
    }
}

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

fn file(path: &str) -> String {
    std::fs::read_to_string(deploy().join(path)).expect("a file of deploy")
}

#[cfg(feature = "shipped")]
#[test]
fn the_files_of_this_repository_are_what_the_shipped_types_render() {
    let facts = Facts::of(&counterstep_tasks::tasks(), "counterstep", None);
    for path in RENDERED {
        let wanted = render(&file(path), &facts).expect("marks");
        counterstep_testkit::golden::compare(
            deploy().join(path),
            &wanted,
            "test --workspace --all-features --lib the_shipped_types_render",
        );
    }
}

#[test]
fn queues_and_tables_of_a_program_stand_in_its_files() {
    let rendered = |path| render(&file(path), &shop()).expect("marks");
    let accounts = rendered("nats/accounts.conf");
    for line in [
        "\"$JS.API.CONSUMER.CREATE.counterstep-work.mails~api.work.mails.api.*.*\"",
        "\"$JS.API.CONSUMER.CREATE.counterstep-work.mails.work.mails.*.*\"",
        "\"$JS.API.CONSUMER.CREATE.counterstep-work.seats~urgent.work.seats.urgent.*.*\"",
        "\"$JS.API.CONSUMER.MSG.NEXT.counterstep-work.seats~backlog\"",
        "\"$JS.ACK.counterstep-work.seats.>\"",
    ] {
        assert_eq!(accounts.matches(line).count(), 1, "{line}\n{accounts}");
    }
    assert!(!accounts.contains("orders"), "{accounts}");
    let scaling = rendered("kubernetes/worker-scaling.yaml");
    let consumers: Vec<_> = scaling
        .lines()
        .filter_map(|line| line.trim().strip_prefix("consumer: "))
        .collect();
    assert_eq!(
        consumers,
        [
            "mails",
            "mails~backlog",
            "seats",
            "seats~urgent",
            "seats~backlog"
        ]
    );
    let roles = rendered("postgres/roles.sql");
    assert!(
        roles.contains("        ('seats', 'SELECT, INSERT'),\n"),
        "{roles}"
    );
}

#[test]
fn what_an_operator_has_changed_around_the_parts_stays() {
    let scaling = file("kubernetes/worker-scaling.yaml")
        .replace("lagThreshold: \"16\"", "lagThreshold: \"40\"")
        .replace("nats.messaging.svc.cluster.local", "bus.example.org")
        .replace("maxReplicaCount: 20", "maxReplicaCount: 7");
    let rendered = render(&scaling, &shop()).expect("marks");
    let own = [
        "lagThreshold: \"40\"",
        "bus.example.org:8222",
        "maxReplicaCount: 7",
    ];
    let counts = own.map(|text| rendered.matches(text).count());
    assert_eq!(counts, [5, 5, 1], "{rendered}");
    assert_eq!(
        render(&rendered, &shop()).expect("marks"),
        rendered,
        "once more"
    );
}

#[test]
fn a_prefix_stands_before_every_subject_and_stream() {
    let facts = Facts {
        nats_prefix: Some("prod".to_owned()),
        ..shop()
    };
    let accounts = render(&file("nats/accounts.conf"), &facts).expect("marks");
    let subjects = accounts.lines().filter(|line| line.trim().starts_with('"'));
    for line in subjects {
        assert!(line.contains("prod"), "{line}");
    }
    assert!(accounts.contains("\"$JS.API.CONSUMER.CREATE.prod-work.mails.prod.work.mails.*.*\""));
    let scaling = render(&file("kubernetes/worker-scaling.yaml"), &facts).expect("marks");
    assert_eq!(
        scaling.matches("stream: prod-work\n").count(),
        5,
        "{scaling}"
    );
}

#[test]
fn a_file_without_its_marks_is_refused_with_what_to_do() {
    let cut = file("nats/accounts.conf").replace("end of rendered", "");
    let unknown = "# rendered: rights of cats\n# end of rendered\n";
    for (text, why) in [
        ("accounts {}", "it has no part `rendered: ..`"),
        (&cut, "has no `end of rendered`"),
        (unknown, "unknown part `rendered: rights of cats`"),
    ] {
        let refused = render(text, &shop()).expect_err(why);
        assert!(refused.contains(why), "{refused}");
    }
}

#[cfg(feature = "shipped")]
#[test]
fn a_check_writes_nothing_and_fails_where_a_queue_is_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    let accounts = folder.path().join("nats/accounts.conf");
    std::fs::create_dir(folder.path().join("nats")).expect("a folder");
    let render = |check| {
        let args = RenderArgs {
            folder: folder.path().to_owned(),
            nats_prefix: None,
            check,
        };
        let command = DeployCommand::Render(args);
        main(
            &counterstep_tasks::tasks(),
            &DeployArgs { command },
            "counterstep",
        )
    };
    let nothing = render(true).expect_err("there is no file");
    assert_eq!(nothing.kind.code(), 78, "{nothing}");

    let older = file("nats/accounts.conf").replace("\"$JS.ACK.counterstep-work.orders.>\"\n", "\n");
    std::fs::write(&accounts, &older).expect("a file");
    let differs = render(true).expect_err("a line is missing");
    assert_eq!(differs.kind.code(), 1, "{differs}");
    assert!(differs.message.contains("1 files differ"), "{differs}");
    let read = || std::fs::read_to_string(&accounts).expect("a file");
    assert_eq!(read(), older);

    render(false).expect("it is written");
    assert_eq!(read(), file("nats/accounts.conf"));
    render(true).expect("nothing differs any more");
}
