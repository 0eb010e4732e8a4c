//! Which fields a form of a declared type has, and what they send.

use super::*;
use crate::query::Fields;
use serde_json::json;

fn order() -> Value {
    json!({
        "$ref": "#/$defs/Order",
        "$defs": {
            "Order": {"type": "object", "required": ["name", "count", "side"], "properties": {
                "name": {"type": "string"}, "count": {"type": "integer"}, "urgent": {"type": ["boolean", "null"]},
                "note": {"type": ["string", "null"]}, "price": {"type": "number", "default": 2},
                "side": {"$ref": "#/$defs/Side", "description": "Which one."},
                "to": {"anyOf": [{"$ref": "#/$defs/Address"}, {"type": "null"}]},
            }},
            "Side": {"oneOf": [{"const": "left"}, {"const": "right"}]},
            "Address": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    })
}

/// What a form of this schema holds, why it is not sent, and how it is shown.
fn held(
    schema: &Value,
    kept: Option<&Value>,
    sent: Option<&[(&str, &str)]>,
) -> (Option<Value>, Option<String>, String) {
    let pairs = sent.map(|all| {
        let all = all.iter();
        all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
    });
    let sent = pairs.map(|all| Fields::of_pairs(all.collect()));
    let mut form = Form::of(sent.as_ref());
    let typed = Typed {
        document: schema,
        schema,
        example: Some(&json!({"name": "an example"})),
    };
    let found = value(&mut form, "r", &html! { "R" }, typed, kept);
    let shown = form.shown().iter().map(|it| it.0.clone()).collect();
    (found, form.why_not().map(str::to_owned), shown)
}

#[test]
fn an_object_has_a_field_for_each_of_its_fields_and_what_is_empty_is_left_out() {
    let sent = [
        ("r.name", " Kim "),
        ("r.count", "12"),
        ("r.urgent", "false"),
        ("r.note", ""),
        ("r.price", "2.5"),
        ("r.side", "right"),
        ("r.to", "{\"city\": \"Bonn\"}"),
    ];
    let (found, wrong, shown) = held(&order(), None, Some(&sent));
    let expected = json!({
        "name": " Kim ", "count": 12, "urgent": false, "price": 2.5, "side": "right", "to": {"city": "Bonn"},
    });
    assert_eq!((found, wrong), (Some(expected), None));
    assert!(
        shown.contains("<option value=\"right\" selected>"),
        "{shown}"
    );
    assert!(shown.contains(", Which one</span>"), "{shown}");
    let (_, _, shown) = held(&order(), None, None);
    assert!(shown.contains("name=\"r.price\" value=\"2\""), "{shown}");
    assert!(!shown.contains("an example"), "{shown}");
}

#[test]
fn what_is_no_number_is_refused_with_its_field_and_shown_as_it_was_entered() {
    let (_, wrong, shown) = held(&order(), None, Some(&[("r.count", "a dozen")]));
    assert_eq!(wrong.as_deref(), Some("`r.count`: `a dozen` is no number"));
    assert!(
        shown.contains("name=\"r.count\" value=\"a dozen\""),
        "{shown}"
    );
}

/// Whether a form of this type shows what is kept as JSON. Either way it sends it as it is.
fn is_json(of: &Value, kept: &Value) -> bool {
    let (found, wrong, shown) = held(of, Some(kept), None);
    assert_eq!((found.as_ref(), wrong), (Some(kept), None), "{shown}");
    shown.contains("<textarea id=\"r\"")
}

/// An object with these fields.
fn object(required: &[&str], fields: Value) -> Value {
    json!({"type": "object", "required": required, "properties": fields})
}

#[test]
fn a_value_that_an_untouched_form_would_change_is_json() {
    for kept in [
        json!({"name": "Kim\nLee", "count": 1, "side": "left"}),
        json!({"name": "Kim", "count": 1, "side": "left", "price": 2, "to": {"city": "Bonn"}}),
        // What is required and not there has a field that is empty.
        json!({"name": "Kim"}),
    ] {
        assert!(!is_json(&order(), &kept), "{kept}");
    }
    let whole = json!({"name": "Kim", "count": 1, "side": "left"});
    for (field, value) in [
        ("later", json!(1)),
        ("name", json!("")),
        ("name", json!(5)),
        ("name", json!("Kim\rLee")),
        ("name", json!("Kim\r\nLee")),
        ("count", json!("5")),
        ("count", json!(null)),
        ("note", json!("")),
        ("note", json!(null)),
        ("price", json!(null)),
        ("side", json!("up")),
        ("urgent", json!("true")),
    ] {
        let mut kept = whole.clone();
        kept[field] = value;
        assert!(is_json(&order(), &kept), "{kept}");
    }
    for kept in [json!(4), json!(null), json!([])] {
        assert!(is_json(&order(), &kept), "{kept}");
    }
    let null = json!({"note": null});
    let note = json!({"note": {"type": ["string", "null"]}});
    assert!(!is_json(&object(&["note"], note), &null));
}

#[test]
fn what_was_sent_comes_back_as_it_was_sent() {
    let kept = json!({"name": "Kim", "count": 1, "side": "left", "later": 1});
    let sent: &[_] = &[("r.name", "Lee"), ("r.count", "2"), ("r.side", "right")];
    let (found, _, shown) = held(&order(), Some(&kept), Some(sent));
    assert_eq!(
        found,
        Some(json!({"name": "Lee", "count": 2, "side": "right"}))
    );
    assert!(shown.contains("name=\"r.name\" value=\"Lee\""), "{shown}");
    let sent: &[_] = &[("r", "{\"name\": 1}")];
    assert_eq!(held(&order(), None, Some(sent)).0, Some(json!({"name": 1})));
    for nothing in ["", " \n"] {
        let (found, wrong, _) = held(&order(), Some(&kept), Some(&[("r", nothing)]));
        assert_eq!(
            (found, wrong.as_deref()),
            (None, Some("`r` is missing; expected JSON"))
        );
    }
}

#[test]
fn a_field_that_is_cleared_is_null_or_refused_and_never_its_default() {
    let of = object(
        &[],
        json!({
            "price": {"type": "number", "default": 2}, "limit": {"type": ["integer", "null"], "default": 3},
            "side": {"enum": ["left", "right"], "default": "left"}, "is_large": {"type": "boolean", "default": false},
            "parts": {"type": "array", "default": []}, "note": {"type": "string", "default": ""},
        }),
    );
    let full = [
        ("r.price", "2"),
        ("r.limit", ""),
        ("r.side", "left"),
        ("r.is_large", "false"),
        ("r.parts", "[]"),
        ("r.note", ""),
    ];
    let (found, wrong, _) = held(&of, None, Some(&full));
    let expected =
        json!({"price": 2, "limit": null, "side": "left", "is_large": false, "parts": []});
    assert_eq!((found, wrong), (Some(expected), None));
    for (name, default) in [
        ("r.price", "2"),
        ("r.side", "\"left\""),
        ("r.is_large", "false"),
        ("r.parts", "[]"),
    ] {
        let cleared = full.map(|(own, value)| (own, if own == name { "" } else { value }));
        let (_, wrong, _) = held(&of, None, Some(&cleared));
        let expected = format!("`{name}` is missing; expected `{default}` or another value");
        assert_eq!(wrong, Some(expected));
    }
    // What was not there takes its default as before.
    let kept = json!({"note": "by phone"});
    let sent = full.map(|(name, _)| (name, ""));
    let (found, wrong, _) = held(&of, Some(&kept), Some(&sent));
    assert_eq!((found, wrong), (Some(json!({})), None));
}

#[test]
fn an_optional_field_of_json_can_be_emptied() {
    let of = object(
        &["from"],
        json!({"from": {"type": "array"}, "to": {"type": "array"}}),
    );
    let kept = json!({"from": [1], "to": [2]});
    let (found, _, shown) = held(&of, Some(&kept), None);
    assert_eq!(found.as_ref(), Some(&kept));
    let is_required = |name: &str| {
        let tag = shown.split('<').find(|it| it.contains(name));
        tag.is_some_and(|it| it.contains(" required"))
    };
    assert!(
        is_required("name=\"r.from\"") && !is_required("name=\"r.to\""),
        "{shown}"
    );
    let (found, wrong, _) = held(&of, Some(&kept), Some(&[("r.from", "[1]"), ("r.to", "")]));
    assert_eq!((found, wrong), (Some(json!({"from": [1]})), None));
    let (_, wrong, _) = held(&of, Some(&kept), Some(&[("r.from", ""), ("r.to", "")]));
    assert_eq!(wrong.as_deref(), Some("`r.from` is missing; expected JSON"));
}

#[test]
fn what_is_required_is_not_sent_empty() {
    let (found, wrong, shown) = held(&order(), None, None);
    assert_eq!((found, wrong), (Some(json!({"price": 2})), None));
    assert!(
        shown.contains("name=\"r.name\" value=\"\" required"),
        "{shown}"
    );
    assert!(shown.contains("name=\"r.side\" required"), "{shown}");
    let full = [("r.name", "Kim"), ("r.count", "1"), ("r.side", "left")];
    for name in ["r.name", "r.count", "r.side"] {
        let sent = full.map(|(own, value)| (own, if own == name { "" } else { value }));
        let (_, wrong, _) = held(&order(), None, Some(&sent));
        let expected = format!("`{name}` is missing; expected a value");
        assert_eq!(wrong, Some(expected));
    }
}

#[test]
fn a_value_that_is_no_object_has_one_field_and_an_empty_one_answers_nothing() {
    let words = json!({"enum": ["yes", "no"]});
    for (of, sent, expected) in [
        (words, "no", json!("no")),
        (json!({"type": "boolean"}), "true", json!(true)),
        (json!({"type": "integer"}), "4", json!(4)),
        (json!({"type": "string"}), "true", json!("true")),
    ] {
        let (found, wrong, shown) = held(&of, None, None);
        assert_eq!((found, wrong), (None, None), "{of}");
        assert!(shown.contains("name=\"r.value\""), "{shown}");
        let (_, wrong, _) = held(&of, None, Some(&[("r.value", "")]));
        let expected_why = "`r.value` is missing; expected a value";
        assert_eq!(wrong.as_deref(), Some(expected_why), "{of}");
        let (found, wrong, _) = held(&of, None, Some(&[("r.value", sent)]));
        assert_eq!((found, wrong), (Some(expected.clone()), None), "{of}");
        assert!(!is_json(&of, &expected), "{of}");
    }
    for of in [
        json!({}),
        json!({"type": "object"}),
        json!({"type": "array"}),
    ] {
        let (found, ..) = held(&of, None, None);
        assert_eq!(found, Some(json!({"name": "an example"})));
        let without = Typed {
            document: &of,
            schema: &of,
            example: None,
        };
        let found = value(&mut Form::of(None), "r", &html! {}, without, None);
        assert_eq!(found, None, "{of}");
    }
}

#[test]
fn words_of_which_some_are_described_are_a_choice_of_all() {
    let of = json!({"oneOf": [
        {"type": "string", "enum": ["small", "large"]}, {"type": "string", "const": "huge", "description": "Two lorries."},
    ]});
    let (.., shown) = held(&of, None, None);
    for word in ["small", "large", "huge"] {
        assert!(
            shown.contains(&format!("<option value=\"{word}\"")),
            "{shown}"
        );
    }
    let mixed = json!({"oneOf": [{"const": "huge"}, {"type": "integer"}]});
    let (.., shown) = held(&mixed, None, None);
    assert!(shown.contains("<textarea id=\"r\""), "{shown}");
}

#[test]
fn where_a_person_answers_nothing_is_preset_and_what_was_left_empty_is_refused() {
    let of = json!({"type": "object", "properties": {
        "approved": {"type": "boolean", "default": false}, "note": {"type": ["string", "null"]},
    }});
    let typed = Typed {
        document: &of,
        schema: &of,
        example: None,
    };
    let answered = |approved: &str| {
        let all = [("r.approved", approved), ("r.note", "")];
        let all = all.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let sent = Fields::of_pairs(all.to_vec());
        let mut form = Form::of(Some(&sent));
        let found = value(&mut form, "r", &html! {}, typed, None);
        (found, form.why_not().map(str::to_owned))
    };
    let mut opened = Form::of(None);
    let _ = value(&mut opened, "r", &html! {}, typed, None);
    let shown: String = opened.shown().iter().map(|it| it.0.clone()).collect();
    assert!(!shown.contains("\"false\" selected"), "{shown}");
    let (_, why) = answered("");
    assert!(why.is_some_and(|it| it.starts_with("`r` is empty")));
    assert_eq!(answered("false"), (Some(json!({"approved": false})), None));
}
