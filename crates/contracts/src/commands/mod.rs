//! What an operator can do over HTTP, as commands of the program: a row an operation, with its address, its role and its words. The
//! kernel makes moves of it; the page and the command line write their commands with it. Must not know which move fits which task.

#[rustfmt::skip] // A table is read by its columns.
mod calls;
mod encoding;
#[cfg(test)]
mod tests;

pub use calls::*;
pub use encoding::{in_shell, quoted, segment};

use crate::access::Role;
use crate::limit::Rate;
use crate::operator::OperatorMove;
use encoding::plain;
use serde_json::Value;

/// What a flag holds of its field.
#[derive(Debug, Clone, Copy)]
enum Takes {
    Text,
    /// A text with `-` in place of `_`, as the command line has words of a list.
    Word,
    Json,
    /// `null` is left out.
    Number,
    /// As 50/1s; `null` is left out.
    Rate,
    /// Nothing: the flag stands for this text.
    Itself(&'static str),
    /// A flag for each field of a JSON merge patch.
    Fields,
}

/// A field of a body, and the flag that has it.
#[derive(Debug, Clone, Copy)]
pub struct Flag {
    /// In the body.
    pub field: &'static str,
    /// On the command line.
    pub name: &'static str,
    takes: Takes,
}

const fn flag(field: &'static str, name: &'static str, takes: Takes) -> Flag {
    Flag { field, name, takes }
}

impl Flag {
    /// The values of the flag, once for each time that it stands there; `None`: it does not express this one.
    fn values(self, value: &Value) -> Option<Vec<Option<String>>> {
        let one = |text: String| Some(vec![Some(text)]);
        match self.takes {
            Takes::Number | Takes::Rate if value.is_null() => Some(Vec::new()),
            Takes::Text => one(value.as_str()?.to_owned()),
            Takes::Word => one(value.as_str()?.replace('_', "-")),
            Takes::Json => one(value.to_string()),
            Takes::Number => one(value.as_u64()?.to_string()),
            Takes::Rate => one(serde_json::from_value::<Rate>(value.clone())
                .ok()?
                .to_string()),
            Takes::Itself(text) => (value == text).then(|| vec![None]),
            Takes::Fields => Some(set_fields(value)?.into_iter().map(Some).collect()),
        }
    }
}

/// An operation of the interface, and the command that asks for it.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    /// `operationId` in the OpenAPI document.
    pub operation: &'static str,
    /// HTTP method.
    pub method: &'static str,
    /// Address, with `{}` for each thing that it names.
    pub path: &'static str,
    /// The role that it needs.
    pub role: Role,
    /// The group of commands, and the command.
    pub words: [&'static str; 2],
    /// The flags that have its fields, in order.
    pub flags: &'static [Flag],
    /// The flag that has the whole body.
    pub body: Option<&'static str>,
}

/// What a person is still asked for, in a command.
const PLACEHOLDER: &str = "JSON";

/// What a move asks for that is the whole body of its call.
pub const WHOLE_BODY: &str = "body";

impl Call {
    /// The operation of this id.
    #[must_use]
    pub fn of(operation: &str) -> Option<&'static Self> {
        CALLS
            .iter()
            .copied()
            .find(|call| call.operation == operation)
    }

    /// The address of these things.
    #[must_use]
    pub fn address(&self, named: &[&str]) -> String {
        let mut named = named.iter();
        let parts = self.path.split('/').map(|part| match part {
            "{}" => segment(named.next().copied().unwrap_or_default()),
            part => part.to_owned(),
        });
        parts.collect::<Vec<_>>().join("/")
    }

    /// What an address of it names.
    fn named(&self, address: &str) -> Vec<String> {
        let parts = self.path.split('/').zip(address.split('/'));
        let named = parts.filter(|(part, _)| *part == "{}");
        named.map(|(_, name)| plain(name)).collect()
    }

    /// The words behind the program's name; `None`: no command expresses this body.
    fn words(&self, can: &OperatorMove) -> Option<Vec<String>> {
        let mut words = self.words.map(str::to_owned).to_vec();
        words.extend(self.named(&can.path));
        let is_asked = |field: &str| can.asks.iter().any(|asked| asked == field);
        match (self.body, &can.body) {
            (None, _) => {}
            (Some(flag), _) if is_asked(WHOLE_BODY) => add(&mut words, flag, Some(PLACEHOLDER)),
            (Some(flag), body) => add(&mut words, flag, Some(&body.clone()?.to_string())),
        }
        for flag in self.flags {
            let Some(value) = can.body.as_ref().and_then(|body| body.get(flag.field)) else {
                continue;
            };
            if is_asked(flag.field) {
                add(&mut words, flag.name, Some(PLACEHOLDER));
                continue;
            }
            for value in flag.values(value)? {
                add(&mut words, flag.name, value.as_deref());
            }
        }
        Some(words)
    }
}

/// Adds a flag. A value that begins like a flag stands in one word with it.
fn add(words: &mut Vec<String>, flag: &str, value: Option<&str>) {
    match value {
        None => words.push(flag.to_owned()),
        Some(value) if value.starts_with('-') && value != "-" => {
            words.push(format!("{flag}={value}"));
        }
        Some(value) => words.extend([flag.to_owned(), value.to_owned()]),
    }
}

impl OperatorMove {
    /// Its words behind the program's name, where it is a call with a command.
    #[must_use]
    pub fn words(&self) -> Option<Vec<String>> {
        Call::of(self.operation.as_deref()?)?.words(self)
    }

    /// A line that a person can paste into a shell; the request that it is where the program has no command for it.
    /// `url`: of the API, where the command has to name it.
    #[must_use]
    pub fn line(&self, program: &str, url: Option<&str>) -> String {
        if let Some(command) = &self.command {
            return format!("{program} {command}");
        }
        let Some(mut words) = self.words() else {
            let body = self
                .body
                .as_ref()
                .map_or_else(String::new, |body| format!(" {body}"));
            return format!("{} {}{body}", self.method, self.path);
        };
        if let Some(url) = url {
            words.splice(1..1, ["--url".to_owned(), url.to_owned()]);
        }
        words.insert(0, program.to_owned());
        in_shell(words.iter().map(String::as_str))
    }
}

/// The values of `--set` for a JSON merge patch; none where they do not express it: a name with a sign of theirs, or
/// what is no object.
fn set_fields(patch: &Value) -> Option<Vec<String>> {
    let fields = patch.as_object().filter(|fields| !fields.is_empty())?;
    let mut all = Vec::new();
    for (name, value) in fields {
        if name.is_empty() || name.contains(['.', '=']) {
            return None;
        }
        match value {
            Value::Object(inner) if !inner.is_empty() => {
                let inner = set_fields(value)?;
                all.extend(inner.into_iter().map(|field| format!("{name}.{field}")));
            }
            value => all.push(format!("{name}={value}")),
        }
    }
    Some(all)
}
