//! Each call as a command, and as a request where no command expresses it.

use super::*;
use crate::operation::Operation;
use crate::operation::breakers::CloseBreaker;
use crate::operation::limits::SetLimit;
use serde_json::json;

const ID: &str = "00000000-0000-7000-8000-000000000001";

/// A move of a call.
fn of(operation: &str, named: &[&str], body: Option<Value>) -> OperatorMove {
    let about = About::of_operation(operation).expect("an operation");
    OperatorMove {
        operation: Some(operation.to_owned()),
        method: about.verb.name().to_owned(),
        path: about.address(named),
        body,
        ..OperatorMove::default()
    }
}

fn line(can: &OperatorMove) -> String {
    can.line("shop", None).replace(ID, "ID")
}

#[test]
fn each_call_is_a_command() {
    for (operation, named, body, command) in [
        ("cancelTask", &[ID][..], None, "shop tasks cancel ID"),
        (
            "retryTask",
            &[ID],
            Some(json!({"note": "why"})),
            "shop tasks retry ID --note why",
        ),
        (
            "retryTask",
            &[ID],
            Some(json!({"note": "why", "direction": "undo"})),
            "shop tasks retry ID --undo --note why",
        ),
        (
            "resolveTask",
            &[ID],
            Some(json!({"as": "not_needed", "note": "it's"})),
            r"shop tasks resolve ID --as not-needed --note 'it'\''s'",
        ),
        (
            "resolveTask",
            &[ID],
            Some(json!({"step": "pay", "as": "done", "output": null, "note": "-5 degrees"})),
            "shop tasks resolve ID --step pay --as done --output null '--note=-5 degrees'",
        ),
        (
            "sendSignal",
            &[ID, "a/b c"],
            Some(json!({"by": "Kim"})),
            r#"shop tasks signal ID 'a/b c' --body '{"by":"Kim"}'"#,
        ),
        (
            "setRecoveries",
            &[ID],
            Some(json!({"recovery_attempts": 0, "note": "a+b"})),
            "shop tasks recoveries ID --set 0 --note a+b",
        ),
        (
            "runTaskAgain",
            &[ID],
            Some(
                json!({"from": "ship", "patch": {"amount": 12, "to": {"city": "Bonn", "old": {}}, "x": null}, "note": "why"}),
            ),
            r#"shop tasks run-again ID --from ship --set amount=12 --set 'to.city="Bonn"' --set 'to.old={}' --set x=null --note why"#,
        ),
        (
            "startBulkOperation",
            &[],
            Some(
                json!({"action": "resolve", "as": "not_needed", "group": "0123456789abcdef", "note": "why"}),
            ),
            "shop dead-letters resolve --as not-needed --group 0123456789abcdef --note why",
        ),
        (
            "startBulkOperation",
            &[],
            Some(
                json!({"action": "cancel", "filter": {"status": ["running", "waiting"], "labels": {"a": "b c"}}, "note": "why"}),
            ),
            "shop bulk cancel --status running --status waiting --label 'a=b c' --note why",
        ),
        (
            "startBulkOperation",
            &[],
            Some(json!({"action": "redrive", "filter": {}, "note": "why"})),
            "shop dead-letters redrive --all --note why",
        ),
        (
            "resumeQueue",
            &["lamps"],
            Some(json!({"note": "why"})),
            "shop queues resume lamps --note why",
        ),
        (
            "setLimit",
            &["bank"],
            Some(json!({"at_once": 3, "rate": {"starts": 50, "per": "1s"}, "note": "why"})),
            "shop limits set bank --at-once 3 --rate 50/1s --note why",
        ),
        (
            "setLimit",
            &["bank"],
            Some(json!({"at_once": 3, "rate": null, "note": "why"})),
            "shop limits set bank --at-once 3 --note why",
        ),
        (
            "resetLimit",
            &["bank"],
            Some(json!({"note": "why"})),
            "shop limits reset bank --note why",
        ),
        (
            "closeBreaker",
            &["line"],
            Some(json!({"note": "why"})),
            "shop breakers close line --note why",
        ),
    ] {
        assert_eq!(line(&of(operation, named, body)), command);
    }
    let at = |url| of("cancelTask", &[ID], None).line("shop", Some(url));
    assert_eq!(
        at("http://api:80/?a&b").replace(ID, "ID"),
        "shop tasks --url 'http://api:80/?a&b' cancel ID"
    );
}

#[test]
fn what_a_person_is_asked_for_has_a_placeholder() {
    let mut can = of("sendSignal", &[ID, "approval"], None);
    assert_eq!(can.words(), None, "it has no body yet");
    can.asks = vec![WHOLE_BODY.to_owned()];
    assert_eq!(line(&can), "shop tasks signal ID approval --body JSON");
    let body = json!({"step": "pay", "as": "done", "output": null, "note": "why"});
    let mut can = of("resolveTask", &[ID], Some(body));
    can.asks = vec!["output".to_owned()];
    let expected = "shop tasks resolve ID --step pay --as done --output JSON --note why";
    assert_eq!(line(&can), expected);
    let body = json!({"at_once": 3, "rate": {"starts": 50, "per": "1s"}, "note": "why"});
    let mut can = of("setLimit", &["bank"], Some(body));
    can.asks = vec!["at_once".to_owned(), "rate".to_owned()];
    let expected = "shop limits set bank --at-once NUMBER --rate RATE --note why";
    assert_eq!(line(&can), expected);
    // What need not be added is left out.
    let mut can = of("retryTask", &[ID], Some(json!({"note": "why"})));
    can.asks = vec!["patch".to_owned()];
    assert_eq!(line(&can), "shop tasks retry ID --note why");
}

#[test]
fn what_no_command_expresses_is_the_request_that_it_is() {
    for patch in [
        json!({}),
        json!([1]),
        json!({"a.b": 1}),
        json!({"a": {"b=c": 1}}),
    ] {
        let can = of(
            "retryTask",
            &[ID],
            Some(json!({"patch": patch, "note": "why"})),
        );
        assert_eq!(can.words(), None, "{patch}");
    }
    // An action of a later version.
    let of_another_action = of("startBulkOperation", &[], Some(json!({"action": "move"})));
    assert_eq!(of_another_action.words(), None);
    let of_another_version = OperatorMove {
        method: "PATCH".to_owned(),
        path: format!("/api/tasks/{ID}/new"),
        operation: Some("changeTask".to_owned()),
        body: Some(json!({"a": 1})),
        ..OperatorMove::default()
    };
    assert_eq!(
        line(&of_another_version),
        r#"PATCH /api/tasks/ID/new {"a":1}"#
    );
    let command = OperatorMove {
        command: Some("reconciler --once".to_owned()),
        title: "run a pass of the reconciler".to_owned(),
        ..OperatorMove::default()
    };
    // It opens servers by itself: pasted as it stands it does nothing.
    let expected =
        "# run a pass of the reconciler, with your settings and secrets: shop reconciler --once";
    assert_eq!(line(&command), expected);
}

#[test]
fn an_address_names_what_it_was_made_of() {
    let close = CloseBreaker::ABOUT;
    for name in ["a", "type:Deal", "a/b", "100%", "%41", "ü+&?#"] {
        assert_eq!(close.named(&close.address(&[name])), [name]);
    }
    let set = SetLimit::ABOUT.address(&["type:a/b"]);
    assert_eq!(set, "/api/limits/type:a%2Fb");
}
