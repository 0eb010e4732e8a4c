//! Parameters and headers that several routes have.

use crate::openapi::Header;
pub(super) use counterstep_contracts::operation::text;

use counterstep_contracts::operation::Param;
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
        ids: None,
    }
}

fn duration() -> Value {
    json!({ "type": "string", "pattern": "^[0-9]{1,11}(ms|s|m|h|d)$" })
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
