//! Commands as the declarations say: one more operation is one more command, and what moves print is read.

use super::super::submit::tests::scripted;
use super::super::{ALL, command};
use super::*;
use counterstep_contracts::access::Role;
use counterstep_contracts::operation::dead_letters::GroupDeadLetters;
use counterstep_contracts::operation::task_lists::{ListChildren, ListTasks};
use counterstep_contracts::operation::{About, Access, BY_HAND, Chapter, Operation};
use counterstep_contracts::operator::OperatorMove;
use counterstep_contracts::{QueueName, TaskId};
use counterstep_steps::Registry;
use serde_json::json;

const TASK: &str = "01930d2c-6c4b-7d5e-8f00-0123456789ab";

/// One that the product has not, in a group of the product.
struct NameQueue;

impl Operation for NameQueue {
    type Target = QueueName;
    type Input = counterstep_contracts::queue::QueueRequest;
    type Output = (String,);
    const ABOUT: About = About::post(
        "nameQueue",
        "/api/queues/{name}/name",
        Access::Role(Role::Operate),
    )
    .summary(Chapter::Types, "Name a queue")
    .answers(202, "It is named")
    .command(["queues", "name"], &[])
    .more("once");

    fn example() -> (Self::Input, (String,)) {
        let request = counterstep_contracts::queue::QueueRequest {
            note: "why".to_owned(),
            actor: None,
        };
        (request, ("bookings".to_owned(),))
    }
}

/// Another one, in a group of its own.
struct RingBell;

impl Operation for RingBell {
    type Target = ();
    type Input = ();
    type Output = ();
    const ABOUT: About = About::post("ringBell", "/api/bell", Access::Role(Role::Read))
        .summary(Chapter::Process, "Ring the bell")
        .answers(204, "It has rung")
        .command(["bell", "ring"], &[]);

    fn example() -> ((), ()) {
        ((), ())
    }
}

fn with_two_more() -> Vec<Declared> {
    let more = [Declared::of::<NameQueue>(), Declared::of::<RingBell>()];
    [ALL, &more].concat()
}

fn parsed(operations: &[Declared], words: &[&str]) -> Result<ArgMatches, clap::Error> {
    let words = [&["counterstep"], words].concat();
    command(&Registry::new(), operations).try_get_matches_from(words)
}

/// The operation that words ask for, what they name and what they send.
fn read(
    operations: &[Declared],
    words: &[&str],
) -> Option<(&'static str, Vec<String>, Option<Value>)> {
    let matches = parsed(operations, words).unwrap_or_else(|error| panic!("{words:?}: {error}"));
    let (it, given) = find(operations, &matches)?;
    let (named, body) = asked(&it, given).expect("it is well formed");
    Some((it.about.id, named, body))
}

#[test]
fn an_operation_in_the_list_is_a_command_with_its_help() {
    let operations = with_two_more();
    for (words, parts) in [
        (
            &["queues", "name", "--help"][..],
            &[
                "Name a queue: once",
                "<NAME>",
                "The name of the queue",
                "--note <NOTE>",
                "--url <URL>",
            ][..],
        ),
        (&["bell", "--help"], &["ring", "Ring the bell"]),
    ] {
        let help = parsed(&operations, words).expect_err("a help").to_string();
        for part in parts {
            assert!(help.contains(part), "{part}: {help}");
        }
        assert!(parsed(ALL, &words[..2]).is_err(), "the product has none");
    }
    let words = ["queues", "name", "a b", "--note", "why", "--actor", "kim"];
    let expected = json!({"note": "why", "actor": "kim"});
    let read = read(&operations, &words).expect("its operation");
    assert_eq!(read, ("nameQueue", vec!["a b".to_owned()], Some(expected)));
    let refused = parsed(&operations, &["queues", "name", "a"]).expect_err("no note");
    assert!(refused.to_string().contains("--note"), "{refused}");
}

#[test]
fn each_command_of_an_operation_is_built_once_and_has_its_target_and_its_fields() {
    let whole = command(&Registry::new(), ALL);
    whole.clone().debug_assert();
    for it in ALL.iter().filter(|it| it.about.command.is_some()) {
        let [group, name] = it.about.command.expect("a command").words;
        let group = whole.find_subcommand(group).expect("its group");
        let of_name = group.get_subcommands().filter(|it| it.get_name() == name);
        let [built] = of_name.collect::<Vec<_>>()[..] else {
            panic!("`{name}` is there twice, or not");
        };
        assert_eq!(built.get_positionals().count(), it.params.len(), "{name}");
        let properties = it.input.map(|it| it.whole_schema()["properties"].clone());
        let properties = properties.unwrap_or_default();
        for field in properties.as_object().into_iter().flatten() {
            let has = |arg: &Arg| arg.get_id() == field.0.as_str();
            assert!(built.get_arguments().any(has), "{name}: {field:?}");
        }
    }
}

#[test]
fn each_kind_of_gate_is_set_and_reset_in_one_grammar_as_by_its_own_command() {
    let of = |it: &Declared| it.about.command.and_then(|asks| Some((asks, asks.gate?)));
    let all: Vec<_> = ALL.iter().filter_map(of).collect();
    for kind in GateKind::ALL {
        let moves = all.iter().filter(|(_, (_, its))| its == kind);
        let moves: Vec<_> = moves.map(|(_, (does, _))| *does).collect();
        // Failures open a breaker, and no person does.
        let wanted = match kind {
            GateKind::Breaker => &GateMove::ALL[1..],
            _ => &GateMove::ALL,
        };
        assert!(wanted.iter().all(|does| moves.contains(does)), "{kind}");
        assert_eq!(moves.len(), wanted.len(), "{kind}");
    }
    for (asks, (does, kind)) in all {
        let arguments = match kind {
            GateKind::Workers => &["w1", "--role", "worker", "--note", "why"][..],
            GateKind::Limit if does == GateMove::Set => &["a", "--at-once", "3", "--note", "why"],
            _ => &["a", "--note", "why"],
        };
        let own = [&asks.words[..], arguments].concat();
        let general = ["gates", does.word(), kind.as_str()];
        let general = [&general[..], arguments].concat();
        let read = |words: &[&str]| read(ALL, words).expect("an operation");
        assert_eq!(read(&general), read(&own), "{general:?}");
    }
    for words in [&["gates", "set"][..], &["gates", "set", "breaker", "a"]] {
        assert!(parsed(ALL, words).is_err(), "{words:?}");
    }
}

/// A move with a body for each operation that has a command, with a value of each kind.
fn moves() -> Vec<OperatorMove> {
    let of = |operation: &str, named: &[&str], body: Option<Value>| {
        let about = About::of_operation(operation).expect("an operation");
        OperatorMove {
            operation: Some(operation.to_owned()),
            path: about.address(named),
            body,
            ..OperatorMove::default()
        }
    };
    let patch = json!({"amount": 12, "to": {"city": "Bonn", "old": {}}, "x": null});
    let bodies = [
        ("cancelTask", TASK, None),
        (
            "retryTask",
            TASK,
            Some(json!({"note": "why", "direction": "undo"})),
        ),
        (
            "retryTask",
            TASK,
            Some(json!({"note": "-why", "patch": patch})),
        ),
        (
            "resolveTask",
            TASK,
            Some(json!({"as": "not_needed", "note": "it's"})),
        ),
        (
            "resolveTask",
            TASK,
            Some(json!({"step": "pay", "as": "done", "output": null, "note": "-5 degrees"})),
        ),
        (
            "resolveTask",
            TASK,
            Some(json!({"as": "redriven", "task": TASK, "note": "see there"})),
        ),
        (
            "setRecoveries",
            TASK,
            Some(json!({"recovery_attempts": 0, "note": "a+b"})),
        ),
        (
            "putSchedule",
            "nightly",
            Some(
                json!({"type": "Order", "cron": "@daily", "misfire": "fire_once", "catch_up_limit": 3}),
            ),
        ),
        (
            "runTaskAgain",
            TASK,
            Some(json!({"from": "ship", "patch": patch, "note": "why"})),
        ),
        (
            "startBulkOperation",
            "",
            Some(
                json!({"action": "redrive", "group": "0123456789abcdef", "patch": patch, "note": "why"}),
            ),
        ),
        (
            "startBulkOperation",
            "",
            Some(json!({"action": "resolve", "as": "not_needed", "filter": {}, "note": "why"})),
        ),
        (
            "startBulkOperation",
            "",
            Some(
                json!({"action": "cancel", "filter": {"type": "Order", "labels": {"a": "b=c", "d": "e f"}}, "note": "why"}),
            ),
        ),
        (
            "startBulkOperation",
            "",
            Some(json!({
                "action": "run-again", "from": "ship", "note": "why",
                "filter": {"status": ["failed", "cancelled"], "failure_class": "timed_out", "failure_text": "no seat"},
            })),
        ),
        (
            "putView",
            "late-orders",
            Some(json!({"q": "order=4711 \"a b\"", "columns": "order,changed"})),
        ),
        (
            "setLimit",
            "type:a/b",
            Some(json!({"at_once": 3, "rate": {"starts": 50, "per": "1s"}, "note": "why"})),
        ),
    ];
    let known: Vec<_> = bodies.iter().map(|it| it.0).collect();
    let others = ALL
        .iter()
        .chain(BY_HAND)
        .filter(|it| it.about.command.is_some() && !known.contains(&it.about.id))
        // A list with a query is no move.
        .filter(|it| it.query.is_none());
    let others = others.map(|it| {
        let named: Vec<_> = it.params.iter().map(|param| param.example).collect();
        let body = it.body().map(|_| json!({"note": "why"}));
        of(it.about.id, &named, body)
    });
    let bodies = bodies.into_iter();
    let bodies = bodies.map(|(id, name, body)| of(id, &[name], body));
    bodies.chain(others).collect()
}

#[test]
fn each_command_that_a_move_prints_is_read_as_the_move_that_it_is() {
    let moves = moves();
    let all = ALL.iter().chain(BY_HAND);
    let commands = all.filter(|it| it.query.is_none());
    for about in commands.flat_map(Declared::commands).map(|it| it.about) {
        let words = about.command.expect("a command").words;
        let is_it = |it: &OperatorMove| {
            let its = it.words().expect("words");
            it.operation.as_deref() == Some(about.id) && its.starts_with(&words.map(str::to_owned))
        };
        assert!(moves.iter().any(is_it), "{words:?}");
    }
    for can in moves {
        let words = can.words().unwrap_or_else(|| panic!("{can:?}"));
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let (id, named, body) = read(ALL, &words).expect("its operation");
        assert_eq!(Some(id), can.operation.as_deref());
        let named: Vec<_> = named.iter().map(String::as_str).collect();
        let about = About::of_operation(id).expect("an operation");
        assert_eq!(about.address(&named), can.path, "{words:?}");
        let without_user = |mut body: Option<Value>| {
            if let Some(Value::Object(fields)) = &mut body {
                fields.remove("actor");
            }
            body
        };
        assert_eq!(without_user(body), can.body, "{words:?}");
    }
}

#[test]
fn a_preset_sends_what_is_given_and_what_its_flags_have() {
    let group = "0123456789abcdef";
    for (words, id, sent) in [
        (
            &["schedules", "next", "nightly"][..],
            "getSchedule",
            json!({"next": 5}),
        ),
        (
            &["schedules", "next", "nightly", "--count", "2"],
            "getSchedule",
            json!({"next": 2}),
        ),
        (
            &["dead-letters", "redrive", "--group", "0123456789ABCDEF"],
            "startBulkOperation",
            json!({"action": "redrive", "group": group, "note": "why", "actor": "kim"}),
        ),
        (
            &["bulk", "run-again", "--all", "--status", "resolved"],
            "startBulkOperation",
            json!({"action": "run-again", "filter": {"status": ["resolved"]}, "note": "why", "actor": "kim"}),
        ),
        (
            &[
                "bulk",
                "cancel",
                "--label",
                "a=b",
                "--until",
                "2001-09-09T03:46:40+02:00",
                "--preview",
            ],
            "startBulkOperation",
            json!({
                "action": "cancel", "preview": true, "note": "why", "actor": "kim",
                "filter": {"labels": {"a": "b"}, "until": "2001-09-09T01:46:40.000000Z"},
            }),
        ),
    ] {
        let signed = ["--note", "why", "--actor", "kim"];
        let signed = if id == "getSchedule" {
            &[][..]
        } else {
            &signed
        };
        let (of, _, body) = read(ALL, &[words, signed].concat()).expect("its operation");
        assert_eq!((of, body), (id, Some(sent)), "{words:?}");
    }
    for words in [
        // Fields that the action does not take.
        &["dead-letters", "redrive", "--all", "--as", "done"][..],
        &["dead-letters", "redrive", "--all", "--from", "ship"],
        &["bulk", "cancel", "--all", "--set", "a=1"],
        // What it needs is missing.
        &["dead-letters", "resolve", "--all"],
        &["bulk", "run-again", "--all"],
        &["bulk", "cancel"],
        // All, and not all.
        &["dead-letters", "redrive", "--all", "--status", "failed"],
        &[
            "bulk",
            "run-again",
            "--all",
            "--status",
            "failed",
            "--type",
            "Order",
        ],
    ] {
        let words = [words, &["--note", "why"]].concat();
        assert!(parsed(ALL, &words).is_err(), "{words:?}");
    }
}

#[test]
fn each_flag_of_a_command_and_what_a_preset_gives_is_a_field_of_what_is_sent() {
    let mut presets = 0;
    for it in ALL.iter().chain(BY_HAND).flat_map(Declared::commands) {
        let command = it.about.command.expect("a command");
        presets += usize::from(!command.given.is_empty());
        let schema = it.input.map(|input| input.whole_schema());
        let given = command.given.iter().map(|(field, _)| *field);
        for field in command.flags.iter().map(|flag| flag.field).chain(given) {
            let of = flags::field_of(schema.as_ref().expect("an input"), field);
            assert!(of.is_object(), "{:?}: {field}", command.words);
        }
    }
    assert_eq!(presets, 5);
}

#[test]
fn a_command_that_prints_a_part_of_an_answer_prints_it_alone() {
    let words = ["counterstep", "schedules", "next", "nightly"];
    let matches = command(&Registry::new(), ALL).try_get_matches_from(words);
    let matches = matches.expect("it is well formed");
    let (it, _) = find(ALL, &matches).expect("its operation");
    let mut view = (it.output.expect("an answer").example)();
    let shown = |out: &OutputArgs, view: &Value| {
        printed(out, &it, None, view.to_string().as_bytes()).expect("a text")
    };
    let (out, json) = (
        OutputArgs::default(),
        OutputArgs {
            json: true,
            ..OutputArgs::default()
        },
    );
    assert_eq!(shown(&json, &view), "[]\n");
    view["upcoming"] = json!(["2026-11-21T01:30:00.000000Z"]);
    assert_eq!(shown(&out, &view), "2026-11-21T01:30:00.000000Z\n");
    assert_eq!(
        shown(&json, &view),
        "[\n  \"2026-11-21T01:30:00.000000Z\"\n]\n"
    );
}

#[test]
fn the_flags_of_a_list_are_the_query_that_it_reads() {
    let words = ["tasks", "children", TASK];
    let usual = read(ALL, &words).expect("its operation");
    let expected = json!({"limit": 50});
    assert_eq!(
        usual,
        ("listChildren", vec![TASK.to_owned()], Some(expected))
    );
    let more = [
        "--status",
        "dead_lettered",
        "--status",
        "failed",
        "--limit",
        "7",
        "--cursor",
        "x",
    ];
    let (_, _, query) = read(ALL, &[&words[..], &more].concat()).expect("its operation");
    let expected = json!({"status": ["dead_lettered", "failed"], "limit": 7, "cursor": "x"});
    assert_eq!(query, Some(expected));
    for (bad, part) in [
        (["--limit", "201"], "201 is not in 1..=200"),
        (["--limit", "x"], "invalid digit"),
        (["--status", "odd"], "compensation_failed"),
        (["--until", "1h"], "--until"),
    ] {
        let refused = parsed(ALL, &[&words[..], &bad].concat()).expect_err(part);
        assert!(refused.to_string().contains(part), "{refused}");
    }
}

#[test]
fn a_list_is_printed_as_rows_with_where_it_goes_on() {
    let list = Declared::of::<ListChildren>();
    let out = OutputArgs::default();
    let line = json!({
        "task_id": TASK, "task_type": "BookSeat", "step": "seats", "place": 7,
        "status": "failed", "failure": {"class": "permanent", "message": "no seat is left"},
    });
    let page = json!({"items": [line], "next_cursor": "2.7.00"}).to_string();
    let usual = json!({"limit": 50});
    let text = printed(&out, &list, Some(&usual), page.as_bytes()).expect("rows");
    for part in ["seats", "BookSeat", "failed"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.ends_with("more: --cursor 2.7.00\n"), "{text}");
    for (query, none) in [
        (usual, "No children\n"),
        (json!({"limit": 50, "step": "seats"}), "No children match\n"),
    ] {
        let text = printed(&out, &list, Some(&query), br#"{"items":[]}"#);
        assert_eq!(text.expect("a text"), none);
    }
}

#[tokio::test]
async fn a_list_that_looks_for_what_fits_goes_on_until_its_page_is_full() {
    let page = |count: usize, next: &str| {
        let task = json!({
            "task_id": TASK, "task_type": "BookSeat", "status": "failed",
            "created_at": "2026-11-20T18:00:00Z", "updated_at": "2026-11-20T18:00:02Z",
        });
        json!({"items": vec![task; count], "next_cursor": next}).to_string()
    };
    let (url, serving) = scripted(vec![
        ("GET /api/tasks?failure_text=x%20y&limit=3 ", page(1, "c1")),
        ("cursor=c1&failure_text=x%20y&limit=3 ", page(0, "c2")),
        ("cursor=c2&", page(3, "c3")),
    ]);
    let list = Declared::of::<ListTasks>();
    let query = json!({"failure_text": "x y", "limit": 3});
    let (remote, out) = (Remote::at(&url), OutputArgs::default());
    let text = ask(&remote, &out, &list, &[], Some(&query)).await;
    let text = text.expect("rows");
    assert_eq!(text.matches("BookSeat").count(), 4, "{text}");
    assert!(text.ends_with("more: --cursor c3\n"), "{text}");
    serving.join().expect("all was asked");
}

#[tokio::test]
async fn a_list_in_which_little_fits_ends_after_fifty_pages_and_says_where_to_go_on() {
    let empty = |next| json!({"items": [], "next_cursor": format!("c{next}")}).to_string();
    let answers = (1..=50).map(|page| ("GET /api/tasks?", empty(page)));
    let (url, serving) = scripted(answers.collect());
    let query = json!({"failure_text": "x y", "limit": 3});
    let (remote, out) = (Remote::at(&url), OutputArgs::default());
    let list = Declared::of::<ListTasks>();
    let text = ask(&remote, &out, &list, &[], Some(&query)).await;
    let text = text.expect("an answer");
    assert!(text.ends_with("more: --cursor c50\n"), "{text}");
    serving.join().expect("all was asked");
}

#[test]
fn what_no_row_of_a_list_has_stands_below_it() {
    let groups = Declared::of::<GroupDeadLetters>();
    let found = json!({"groups": [], "counted": 0, "others": 7, "complete": false}).to_string();
    let text = printed(&OutputArgs::default(), &groups, None, found.as_bytes());
    assert_eq!(
        text.expect("a text"),
        "No dead letters\n7 more tasks in further groups\n\
         older tasks were not looked at: give --type, --status or --label\n"
    );
}

#[test]
fn a_target_of_another_form_is_refused_before_anything_is_sent() {
    let almost = TASK.replace("0193", "01-3");
    for (words, part) in [
        (
            ["tasks", "cancel", "not-a-uuid"],
            "the id of a task, or at least 8",
        ),
        (["tasks", "cancel", &almost], "a UUID with hyphens"),
        (["bulk", "stop", "../../x"], "the id of a bulk operation"),
    ] {
        let matches = parsed(ALL, &words).expect("a text");
        let (it, given) = find(ALL, &matches).expect("its operation");
        let refused = asked(&it, given).expect_err("no id");
        assert!(refused.message.contains(part), "{}", refused.message);
    }
    assert!("not-a-uuid".parse::<TaskId>().is_err());
}

#[tokio::test]
async fn whole_ids_are_sent_in_place_of_their_parts_once_they_are_confirmed() {
    let other = "01930d2c-6c4b-7d5e-8f00-00002badcafe";
    let page = |ids: &[&str]| {
        let task = |id: &&str| {
            json!({
                "task_id": id, "task_type": "BookSeat", "status": "dead_lettered",
                "created_at": "2026-11-20T18:00:00Z", "updated_at": "2026-11-20T18:00:02Z",
            })
        };
        json!({"items": ids.iter().map(task).collect::<Vec<_>>()}).to_string()
    };
    let words = [
        "tasks", "resolve", "456789ab", "--as", "redriven", "--task", "2badcafe", "--note", "why",
    ];
    let script = || {
        let both = page(&[TASK, other]);
        let one = [("GET /api/tasks?limit", both.clone()), ("status=", both)];
        [one.clone(), one].concat()
    };
    for is_confirmed in [true, false] {
        let matches = parsed(ALL, &words).expect("two parts");
        let (it, given) = find(ALL, &matches).expect("its operation");
        let (mut named, mut body) = asked(&it, given).expect("it is well formed");
        let (url, serving) = scripted(script());
        let remote = Remote::at(&url);
        let remote = if is_confirmed {
            remote.confirmed()
        } else {
            remote
        };
        let found = find_ids(&remote, &it, &mut named, body.as_mut()).await;
        serving.join().expect("all was asked");
        match found {
            Ok(()) => {
                assert!(is_confirmed);
                assert_eq!(named, [TASK]);
                assert_eq!(body.expect("a body")["task"], other);
            }
            // Tests have no terminal, and so no answer.
            Err(exit) => {
                let text = exit.message;
                assert!(
                    !is_confirmed && text.contains(TASK) && text.contains(other),
                    "{text}"
                );
                assert!(text.ends_with("give the whole id, or --yes"), "{text}");
            }
        }
    }
}

/// One for each operation whose address names something that a list has, with a part of it.
#[tokio::test]
async fn each_command_whose_target_is_an_id_takes_a_part_of_one() {
    let mut tried = Vec::new();
    for it in ALL.iter().chain(BY_HAND) {
        let Some(ids) = it.params.last().and_then(|param| param.ids) else {
            continue;
        };
        let (Some(command), Some(last)) = (it.about.command, it.params.last()) else {
            continue;
        };
        let list = ALL.iter().find(|list| list.about.id == ids.list);
        let list = list.expect("the list of the ids").about;
        let (part, others) = (
            &last.example[last.example.len() - 10..],
            it.params.len() - 1,
        );
        let mut item = json!({});
        item[ids.field] = json!(last.example);
        let page = json!({ "items": [item] }).to_string();
        let before: Vec<_> = it.params[..others].iter().map(|it| it.example).collect();
        let path = format!("GET {}", list.address(&before));
        let mut words = command.words.to_vec();
        words.extend(before);
        words.push(part);
        let wanted = it.body().map(|_| ["--note", "why"]);
        let needed: &[&str] = match it.about.id {
            "resolveTask" => &["--as", "undone"],
            "setRecoveries" => &["--set", "0"],
            _ => &[],
        };
        let words = [
            &words[..],
            wanted.as_ref().map_or(&[], |it| &it[..]),
            needed,
        ]
        .concat();
        let matches = parsed(ALL, &words).unwrap_or_else(|error| panic!("{words:?}: {error}"));
        let (of, given) = find(ALL, &matches).expect("its operation");
        let (mut named, mut body) = asked(&of, given).expect("it is well formed");
        let looks = ids.looks.iter().map(|_| (path.clone(), page.clone()));
        let (url, serving) = scripted(looks.collect());
        let remote = Remote::at(&url).confirmed();
        let found = find_ids(&remote, &of, &mut named, body.as_mut()).await;
        found.unwrap_or_else(|exit| panic!("{words:?}: {}", exit.message));
        serving.join().expect("all was asked");
        assert_eq!(
            named.last().map(String::as_str),
            Some(last.example),
            "{words:?}"
        );
        tried.push(it.about.id);
    }
    for id in [
        "getBulkOperation",
        "stopBulkOperation",
        "sendWebhook",
        "removePoisonMessage",
    ] {
        assert!(tried.contains(&id), "{id}");
    }
    assert!(tried.len() > 12, "{tried:?}");
}

#[test]
fn a_group_that_asks_for_something_itself_takes_its_flags_and_those_of_its_command() {
    for words in [
        &["workers", "--state", "lost"][..],
        &["workers", "list", "--state", "lost"],
    ] {
        let (of, named, query) = read(ALL, words).expect("its operation");
        assert_eq!((of, named.len()), ("listWorkers", 0), "{words:?}");
        assert_eq!(query, Some(json!({"state": "lost"})), "{words:?}");
    }
    let refused = parsed(ALL, &["workers", "--state", "odd"]).expect_err("no state");
    assert!(refused.to_string().contains("stopped"), "{refused}");
    // One that does not needs a command.
    assert!(parsed(ALL, &["queues"]).is_err());
}

#[test]
fn a_flag_of_another_command_asks_for_the_operation_that_has_it() {
    let webhook = format!("{TASK}_7");
    for (words, id, expected) in [
        (
            &["tasks", "webhooks", TASK][..],
            "listWebhooks",
            &[TASK][..],
        ),
        (
            &["tasks", "webhooks", TASK, "--send", &webhook],
            "sendWebhook",
            &[TASK, &webhook],
        ),
        (
            &["tasks", "send-webhook", TASK, &webhook],
            "sendWebhook",
            &[TASK, &webhook],
        ),
        (&["dead-letters", "poison"], "listPoisonMessages", &[]),
        (
            &["dead-letters", "poison", "--remove", "5f0c1e7a"],
            "removePoisonMessage",
            &["5f0c1e7a"],
        ),
    ] {
        let (of, named, _) = read(ALL, words).expect("its operation");
        assert_eq!(
            (of, &named[..]),
            (
                id,
                &expected
                    .iter()
                    .map(|it| (*it).to_owned())
                    .collect::<Vec<_>>()[..]
            )
        );
    }
}

#[test]
fn a_flag_of_a_group_that_is_a_command_is_refused_before_another_command() {
    let words = [
        "workers", "--state", "lost", "pause", "w1", "--role", "worker", "--note", "why",
    ];
    let matches = parsed(ALL, &words).expect("clap reads it");
    let refused = run(ALL, &matches, "counterstep")
        .expect("its operation")
        .expect_err("a filter");
    assert!(refused.message.contains("--state"), "{}", refused.message);
    let words = [
        "workers",
        "--url",
        "http://127.0.0.1:1",
        "pause",
        "w1",
        "--role",
        "worker",
        "--note",
        "why",
    ];
    let matches = parsed(ALL, &words).expect("clap reads it");
    let refused = run(ALL, &matches, "counterstep")
        .expect("its operation")
        .expect_err("no API");
    assert!(
        refused.message.contains("does not answer"),
        "{}",
        refused.message
    );
}
