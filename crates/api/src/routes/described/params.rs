//! Parameters and headers that several routes have.

use crate::openapi::Header;
use counterstep_contracts::TaskStatus;
use counterstep_contracts::operation::{Link, Param};
use serde_json::{Value, json};

/// A parameter with an example of its value.
pub(super) const fn param(
    name: &'static str,
    about: &'static str,
    schema: fn() -> Value,
    example: &'static str,
) -> Param {
    Param {
        name,
        about,
        schema,
        example,
    }
}

pub(super) fn text() -> Value {
    json!({ "type": "string" })
}

fn duration() -> Value {
    json!({ "type": "string", "pattern": "^[0-9]{1,11}(ms|s|m|h|d)$" })
}

fn time() -> Value {
    json!({ "type": "string", "format": "date-time" })
}

fn limit() -> Value {
    json!({ "type": "integer", "minimum": 1, "maximum": 200, "default": 50 })
}

fn statuses() -> Value {
    let all: Vec<_> = TaskStatus::ALL.iter().map(|it| it.as_str()).collect();
    json!({ "type": "array", "items": { "type": "string", "enum": all } })
}

fn parked() -> Value {
    let all = TaskStatus::ALL.iter().filter(|it| it.is_parked());
    let all: Vec<_> = all.map(|it| it.as_str()).collect();
    json!({ "type": "array", "items": { "type": "string", "enum": all } })
}

fn labels() -> Value {
    let pattern = "^[a-z0-9][a-z0-9_.-]{0,63}=[^\\u0000-\\u001f\\u007f-\\u009f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ufeff]{1,63}$";
    json!({ "type": "array", "maxItems": 16, "uniqueItems": true, "items": { "type": "string", "pattern": pattern } })
}

fn cursor() -> Value {
    json!({ "type": "string", "format": "cursor" })
}

/// Blank counts as absent.
fn event_id() -> Value {
    json!({
        "type": ["integer", "string"],
        "format": "int64", "minimum": 0, "maximum": i64::MAX,
        "maxLength": 0,
    })
}

fn key() -> Value {
    let plain = "[!#-~][!-~]{0,254}";
    let quoted = r#""([!#-\[\]-~]|\\["\\]){1,255}""#;
    json!({ "type": "string", "pattern": format!("^({plain}|{quoted})$") })
}

pub(super) const KEY: Param = param(
    "Idempotency-Key",
    "A request that is repeated with the same key gets the answer of the first one",
    key,
    "order-4711",
);
pub(super) const WAIT: Param = param(
    "wait",
    "Answer when the task is at rest (terminal or parked), or after this time, at most 60 seconds",
    duration,
    "30s",
);
pub(super) const LIMIT: Param = param("limit", "Items of a page", limit, "50");
pub(super) const CURSOR: Param = param(
    "cursor",
    "The `next_cursor` of the page before, with the same filters",
    cursor,
    "01930d2c6c4b7d5e8f000123456789ab2f5d5a1c9e7b3d40",
);
pub(super) const STATUS: Param = param(
    "status",
    "In this state; repeated, in one of several",
    statuses,
    "running",
);
pub(super) const PARKED: Param = param(
    "status",
    "In this state; repeated, in one of several",
    parked,
    "dead_lettered",
);
pub(super) const LABEL: Param = param(
    "label",
    "With this label, `name=value`; repeated, with all of them",
    labels,
    "order=4711",
);
pub(super) const TYPE: Param = param(
    "type",
    "Of this type, by its declared name or its route",
    text,
    "create-zip-from-files",
);
pub(super) const SINCE: Param = param(
    "since",
    "Submitted not before this time",
    time,
    "2026-11-20T18:00:00Z",
);
pub(super) const UNTIL: Param = param(
    "until",
    "Submitted before this time",
    time,
    "2026-11-21T18:00:00Z",
);

pub(super) const PREFER: Param = param(
    "Prefer",
    "`wait=30`, in seconds: as the parameter `wait`, which goes first",
    text,
    "wait=30",
);
pub(super) const IF_NONE_MATCH: Param = param(
    "If-None-Match",
    "The `ETag` that the client has: 304 where nothing has changed",
    text,
    "\"r7\"",
);
pub(super) const LAST_EVENT_ID: Param = param(
    "Last-Event-ID",
    "The id of the last event that the client has; the stream goes on after it",
    event_id,
    "12",
);

pub(super) const RETRY_AFTER: Header = Header {
    name: "Retry-After",
    about: "",
    is_always: false,
};
pub(super) const ETAG: Header = Header {
    name: "ETag",
    about: "Changes with what is shown",
    is_always: true,
};
pub(super) const REPLAYED: Header = Header {
    name: "Idempotency-Replayed",
    about: "`true`, where the answer is that of an earlier request with the same key",
    is_always: false,
};
pub(super) const PREFERENCE_APPLIED: Header = Header {
    name: "Preference-Applied",
    about: "The header `Prefer` was followed",
    is_always: false,
};

/// Where an answer on what the path names leads.
pub(super) const fn same(
    operation: &'static str,
    parameter: &'static str,
    value: &'static str,
) -> Link {
    Link {
        operation,
        parameter,
        value,
    }
}
