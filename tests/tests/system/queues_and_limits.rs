//! The commands for queues and for limits of steps: `queues list | pause | resume`, `limits list | set | reset`.

use counterstep_contracts::http::Page;
use counterstep_contracts::limit::LimitView;
use counterstep_contracts::queue::QueueView;
use counterstep_tests::command::{Ended, run};
use counterstep_tests::place::Place;
use counterstep_tests::process::{Launch, Process};
use counterstep_tests::services::{self, QUICK};
use serde::de::DeserializeOwned;
use serde_json::from_str;
use std::path::PathBuf;

fn type_in(place: &Place, url: &str, arguments: &[&str]) -> Ended {
    let all = [&arguments[..1], &["--url", url], &arguments[1..]].concat();
    run(place.path(), &all)
}

fn json<T: DeserializeOwned>(ended: &Ended) -> T {
    from_str(&ended.assert_code(0).stdout).expect("JSON")
}

/// The row that begins with this name.
#[track_caller]
fn line(ended: &Ended, name: &str) -> String {
    let mut lines = ended.assert_code(0).stdout.lines();
    let found = lines.find(|line| line.split('\t').next() == Some(name));
    found
        .unwrap_or_else(|| panic!("no `{name}` in {ended:#?}"))
        .to_owned()
}

#[test]
fn a_queue_is_listed_paused_and_resumed_from_the_command_line() {
    let place = Place::new();
    let served = services::dev(&place, QUICK);
    let type_in = |arguments: &[&str]| type_in(&place, served.api.url(), arguments);
    line(&type_in(&["queues", "list"]), "file-processing");
    let signed = ["--note", "the bank moves", "--actor", "kim"];
    let paused = type_in(&[&["queues", "pause", "orders"], &signed[..]].concat());
    let listed = type_in(&["queues", "list"]);
    for shown in [line(&paused, "orders"), line(&listed, "orders")] {
        for part in ["operator", "the bank moves (by kim)"] {
            assert!(shown.contains(part), "{shown}");
        }
    }
    let page: Page<QueueView> = json(&type_in(&["queues", "--json", "list"]));
    let is_paused = |view: &QueueView| view.paused.is_some();
    let names: Vec<_> = page.items.iter().filter(|it| is_paused(it)).collect();
    assert_eq!(names.len(), 1);
    let resume = [
        "queues",
        "--json",
        "resume",
        "orders",
        "--note",
        "it has moved",
    ];
    assert!(!is_paused(&json(&type_in(&resume))));
    assert!(!line(&type_in(&["queues", "list"]), "orders").contains("operator"));
    for what in ["pause", "resume"] {
        type_in(&["queues", what, "unheard-of", "--note", "x"])
            .assert_code(1)
            .assert_says("no-such-queue");
        type_in(&["queues", what, "orders"]).assert_code(2);
        type_in(&["queues", what, "orders", "--note", ""])
            .assert_code(1)
            .assert_says("invalid-request");
    }
}

#[test]
fn a_limit_is_listed_set_and_reset_from_the_command_line() {
    let place = Place::new();
    let data = place.data();
    let arguments = [
        "dev",
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        data.to_str().expect("UTF-8"),
    ];
    let launch = Launch {
        program: PathBuf::from(env!("CARGO_BIN_EXE_limited")),
        arguments: arguments.map(str::to_owned).into(),
        variables: vec![("PATH".to_owned(), std::env::var("PATH").expect("a path"))],
        user: None,
    };
    let mut dev = Process::launch(&place, &launch);
    let url = dev.says("where to submit", |said| {
        let (_, after) = said.split_once("submit to ")?;
        let (origin, _) = after.split_once("/api")?;
        Some(origin.to_owned())
    });
    let type_in = |arguments: &[&str]| type_in(&place, &url, arguments);
    let listed = type_in(&["limits", "list"]);
    assert!(line(&listed, "ten").contains("10 at once"), "{listed:#?}");
    assert!(line(&listed, "fifty").contains("50/1s"), "{listed:#?}");
    let set = [
        "limits",
        "set",
        "ten",
        "--at-once",
        "5",
        "--rate",
        "20/1s",
        "--note",
        "the bank asks for less",
        "--actor",
        "kim",
    ];
    let changed = type_in(&set);
    let listed = type_in(&["limits", "list"]);
    for shown in [line(&changed, "ten"), line(&listed, "ten")] {
        for part in [
            "10 at once",
            "5 at once, 20/1s since",
            "operator",
            "the bank asks for less (by kim)",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }
    let page: Page<LimitView> = json(&type_in(&["limits", "--json", "list"]));
    let is_set = page.items.iter().filter(|limit| limit.set.is_some());
    assert_eq!((page.items.len(), is_set.count()), (2, 1));
    let reset = [
        "limits",
        "--json",
        "reset",
        "ten",
        "--note",
        "the bank takes all again",
    ];
    let view: LimitView = json(&type_in(&reset));
    assert_eq!(view.set, None);
    type_in(&[
        "limits",
        "set",
        "unheard-of",
        "--at-once",
        "1",
        "--note",
        "x",
    ])
    .assert_code(1)
    .assert_says("no-such-limit");
    type_in(&["limits", "reset", "unheard-of", "--note", "x"])
        .assert_code(1)
        .assert_says("no-such-limit");
    type_in(&["limits", "set", "ten", "--at-once", "0", "--note", "x"])
        .assert_code(1)
        .assert_says("invalid-request");
    for arguments in [
        &["limits", "set", "ten", "--note", "x"][..],
        &["limits", "set", "ten", "--rate", "20", "--note", "x"],
        &["limits", "set", "ten", "--at-once", "-1", "--note", "x"],
        &["limits", "set", "ten", "--at-once", "1"],
        &["limits", "reset", "ten"],
    ] {
        type_in(arguments).assert_code(2);
    }
}
