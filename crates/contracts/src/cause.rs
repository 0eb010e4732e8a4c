//! The cause of a failure as data: what an error was about is set where the error is made, and travels with
//! it. It holds no text of a service or of a step, and so stays unencrypted.

use crate::state::{Direction, text_enum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Maximum bytes of a part.
const LONGEST_PART: usize = 100;

/// Maximum bytes of a location in code.
const LONGEST_PLACE: usize = 200;

text_enum!(
    /// The class of a failure: of an error of a step, or one of the engine.
    FailureClass {
        /// It may have passed by itself.
        Transient = "transient",
        /// It would not have passed.
        Permanent = "permanent",
        /// A service asked for patience.
        RateLimited = "rate_limited",
        /// An attempt ran longer than its limit.
        TimedOut = "timed_out",
        /// Code panicked.
        Panicked = "panicked",
        /// The step stopped because it was told to.
        Cancelled = "cancelled",
        /// The task ran into its deadline.
        Deadline = "deadline",
        /// It stayed unknown whether a step happened: its probe gave up.
        InDoubt = "in_doubt",
        /// Too many hosts of the task were lost.
        Lost = "lost",
        /// A newer task of its key took its place.
        Replaced = "replaced",
        /// Rows could not be read: of the task, or of one whose response a step waits for.
        Unreadable = "unreadable",
    }
);

/// The texts of all classes, for schemas and filters.
pub const FAILURE_CLASSES: &[&str] = &{
    let mut all = [""; FailureClass::ALL.len()];
    let mut at = 0;
    while at < all.len() {
        all[at] = FailureClass::ALL[at].as_str();
        at += 1;
    }
    all
};

/// What an error was about, beside its class: the call that failed, or where the code panicked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Origin {
    /// The service that was called, by its name in the settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// The method of that call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The status of its answer; missing where none came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The code of the problem document that it answered with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Where the code panicked, as `src/steps.rs:17`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

impl Origin {
    /// A call, as it was sent.
    #[must_use]
    pub fn call(service: &str, method: &str) -> Self {
        Self {
            service: Some(part(service, LONGEST_PART)),
            method: Some(part(method, LONGEST_PART)),
            ..Self::default()
        }
    }

    /// With the answer of the service, and its body.
    #[must_use]
    pub fn answered(self, status: u16, body: &[u8]) -> Self {
        Self {
            status: Some(status),
            code: problem_code(body),
            ..self
        }
    }

    /// A panic. Of an absolute path its last parts are kept: those before them are of the machine that
    /// compiled the program.
    #[must_use]
    pub fn panic(file: &str, line: u32) -> Self {
        let file = if file.starts_with(['/', '\\']) || file.contains(":\\") {
            let mut parts: Vec<_> = file.rsplit(['/', '\\']).take(3).collect();
            parts.reverse();
            parts.join("/")
        } else {
            file.to_owned()
        };
        Self {
            place: Some(part(&format!("{file}:{line}"), LONGEST_PLACE)),
            ..Self::default()
        }
    }
}

/// A part without control characters, cut where it is too long.
fn part(text: &str, limit: usize) -> String {
    let mut kept = String::new();
    for sign in text.chars().filter(|sign| !sign.is_control()) {
        if kept.len() + sign.len_utf8() > limit {
            break;
        }
        kept.push(sign);
    }
    kept
}

/// The code in a body that is a problem document of RFC 9457: its member `code`, else the last part of its
/// `type`. Only what looks like a name: an id of the request in that place would make each failure a cause.
fn problem_code(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Document {
        #[serde(default)]
        code: serde_json::Value,
        #[serde(default, rename = "type")]
        kind: serde_json::Value,
    }
    let document: Document = serde_json::from_slice(body).ok()?;
    let code = match &document.code {
        serde_json::Value::String(code) => Some(code.clone()),
        serde_json::Value::Number(code) => Some(code.to_string()),
        _ => None,
    };
    code.as_deref()
        .and_then(name)
        .or_else(|| {
            document
                .kind
                .as_str()?
                .rsplit(['/', '#', ':'])
                .next()
                .and_then(name)
        })
        .filter(|name| name != "blank")
}

fn name(text: &str) -> Option<String> {
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    let is_name = (1..=64).contains(&text.len())
        && digits <= 6
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
    is_name.then(|| text.to_owned())
}

/// Which way a task went when it failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CauseSide {
    /// A step, or what belongs to the task as a whole while it goes forward.
    Forward,
    /// An undo.
    Undo,
    /// An older program wrote the failure: nothing is known but its step, class and text.
    #[default]
    Unknown,
}

impl CauseSide {
    /// Stable text of the value.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Undo => "undo",
            Self::Unknown => "unknown",
        }
    }
}

impl From<Option<Direction>> for CauseSide {
    fn from(direction: Option<Direction>) -> Self {
        match direction {
            Some(Direction::Forward) => Self::Forward,
            Some(Direction::Undo) => Self::Undo,
            None => Self::Unknown,
        }
    }
}

/// What a task fails by, without its text: of a parked task what blocks it now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cause {
    /// Which way it went.
    #[serde(default)]
    pub side: CauseSide,
    /// The step that failed, or whose undo did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The class of the failure, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// What the error was about.
    #[serde(flatten)]
    pub origin: Origin,
}

/// In one line, as `undo of charge: permanent, POST bank 402 card-declined`.
impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.side, &self.step) {
            (CauseSide::Undo, Some(step)) => write!(f, "undo of {step}")?,
            (CauseSide::Undo, None) => f.write_str("undo")?,
            (CauseSide::Forward, Some(step)) => f.write_str(step)?,
            (CauseSide::Forward, None) => f.write_str("task")?,
            (CauseSide::Unknown, Some(step)) => write!(f, "unknown, at {step}")?,
            (CauseSide::Unknown, None) => f.write_str("unknown")?,
        }
        let Origin {
            service,
            method,
            status,
            code,
            place,
        } = &self.origin;
        if let Some(class) = &self.class {
            write!(f, ": {class}")?;
        }
        if let (Some(method), Some(service)) = (method, service) {
            write!(f, ", {method} {service}")?;
            match status {
                Some(status) => write!(f, " {status}")?,
                None => f.write_str(" without an answer")?,
            }
        }
        if let Some(code) = code {
            write!(f, " {code}")?;
        }
        if let Some(place) = place {
            write!(f, " at {place}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_document_has_a_code_and_other_bodies_have_none() {
        for (body, code) in [
            (
                r#"{"type":"about:blank","title":"x","code":"card-declined"}"#,
                Some("card-declined"),
            ),
            (
                r#"{"type":"https://bank.example/problems/frozen","status":403}"#,
                Some("frozen"),
            ),
            (r#"{"type":"about:blank","status":403}"#, None),
            (r#"{"code":4001}"#, Some("4001")),
            (r#"{"code":"9f1c2d3e-4b5a-6978-8c7d-0123456789ab"}"#, None),
            (r#"{"code":"two words"}"#, None),
            (r#"{"code":{"a":1},"type":7}"#, None),
            (r#""card-declined""#, None),
            ("<html>", None),
            ("", None),
        ] {
            assert_eq!(problem_code(body.as_bytes()).as_deref(), code, "{body}");
        }
    }

    #[test]
    fn parts_are_bounded_and_have_no_control_characters() {
        let long = "b\u{1b}[31m\n".repeat(200);
        let origin = Origin::call(&long, "POST");
        let service = origin.service.expect("a service");
        assert!(service.len() <= LONGEST_PART && !service.contains(char::is_control));
        let place = |file| Origin::panic(file, 17).place.expect("a place");
        assert_eq!(place("src/steps.rs"), "src/steps.rs:17");
        assert_eq!(place("/home/kim/shop/src/steps.rs"), "shop/src/steps.rs:17");
    }

    #[test]
    fn a_cause_is_one_line() {
        let cause = Cause {
            side: CauseSide::Undo,
            step: Some("charge".to_owned()),
            class: Some("permanent".to_owned()),
            origin: Origin::call("bank", "POST").answered(402, br#"{"code":"card-declined"}"#),
        };
        assert_eq!(
            cause.to_string(),
            "undo of charge: permanent, POST bank 402 card-declined"
        );
        assert_eq!(Cause::default().to_string(), "unknown");
    }
}
