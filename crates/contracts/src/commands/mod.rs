//! What an operator can do over HTTP, as addresses and as commands of the program, made of the declarations of operations. The kernel
//! makes moves of it; the page and the command line write their commands with it. Must not know which move fits which task.

mod encoding;
#[cfg(test)]
mod tests;

pub use encoding::{in_shell, quoted, segment};

use crate::limit::Rate;
use crate::operation::command::{Flag, Takes};
use crate::operation::{ALL, About, BY_HAND, Preset};
use crate::operator::OperatorMove;
use encoding::plain;
use serde_json::Value;

fn operations() -> impl Iterator<Item = &'static About> {
    ALL.iter().chain(BY_HAND).map(|it| &it.about)
}

/// The operations that have a command here.
pub fn with_commands() -> impl Iterator<Item = &'static About> {
    operations().filter(|about| about.command.is_some())
}

impl Flag {
    /// What a person is still asked for.
    const fn placeholder(self) -> &'static str {
        match self.takes {
            Takes::Number => "NUMBER",
            Takes::Rate => "RATE",
            _ => PLACEHOLDER,
        }
    }

    /// The values of the flag, once for each time that it stands there; `None`: it does not express this one.
    fn values(self, value: &Value) -> Option<Vec<Option<String>>> {
        let one = |text: String| Some(vec![Some(text)]);
        match self.takes {
            Takes::Number | Takes::Rate if value.is_null() => Some(Vec::new()),
            Takes::Text | Takes::Id(_) => one(value.as_str()?.to_owned()),
            Takes::Word => one(value.as_str()?.replace('_', "-")),
            Takes::Json => one(value.to_string()),
            Takes::Number => one(value.as_u64()?.to_string()),
            Takes::Rate => one(serde_json::from_value::<Rate>(value.clone())
                .ok()?
                .to_string()),
            Takes::File | Takes::JsonOrFile => None,
            Takes::Itself(text) => (value == text).then(|| vec![None]),
            Takes::Fields => Some(set_fields(value)?.into_iter().map(Some).collect()),
            Takes::Filter => {
                let all = value
                    .as_array()
                    .map_or(std::slice::from_ref(value), |it| it);
                all.iter()
                    .map(|it| Some(Some(it.as_str()?.to_owned())))
                    .collect()
            }
            Takes::Labels => {
                let pair = |(name, value): (&String, &Value)| {
                    Some(Some(format!("{name}={}", value.as_str()?)))
                };
                value.as_object()?.iter().map(pair).collect()
            }
            Takes::Empty => Some(match value.as_object()?.is_empty() {
                true => vec![None],
                false => Vec::new(),
            }),
        }
    }
}

/// A JSON value that a person is still asked for, in a command.
const PLACEHOLDER: &str = "JSON";

/// What a move asks for that is the whole body of its call.
pub const WHOLE_BODY: &str = "body";

impl About {
    /// That of the operation of this id.
    #[must_use]
    pub fn of_operation(id: &str) -> Option<&'static Self> {
        operations().find(|about| about.id == id)
    }

    /// The address of these things.
    #[must_use]
    pub fn address(&self, named: &[&str]) -> String {
        address(self.path, named)
    }

    /// What an address of it names.
    fn named(&self, address: &str) -> Vec<String> {
        let parts = self.path.split('/').zip(address.split('/'));
        let named = parts.filter(|(part, _)| is_named(part));
        named.map(|(_, name)| plain(name)).collect()
    }

    /// The words behind the program's name; `None`: no command expresses this body.
    fn words(&self, can: &OperatorMove) -> Option<Vec<String>> {
        let body = can.body.as_ref();
        let is_given = |(name, value): &(&str, &str)| body.is_some_and(|it| it[*name] == *value);
        let fits = |it: &&Preset| it.command.given.iter().all(is_given);
        let preset = || self.presets.iter().find(fits).map(|it| it.command);
        let command = self.command.or_else(preset)?;
        let mut words = command.words.map(str::to_owned).to_vec();
        words.extend(self.named(&can.path));
        let is_asked = |field: &str| can.asks.iter().any(|asked| asked == field);
        match (command.body, &can.body) {
            (None, _) => {}
            (Some(flag), _) if is_asked(WHOLE_BODY) => add(&mut words, flag, Some(PLACEHOLDER)),
            (Some(flag), body) => add(&mut words, flag, Some(&body.clone()?.to_string())),
        }
        for flag in command.flags {
            let at = format!("/{}", flag.field.replace('.', "/"));
            let Some(value) = body.and_then(|body| body.pointer(&at)) else {
                continue;
            };
            if is_asked(flag.field) {
                add(&mut words, flag.name, Some(flag.placeholder()));
                continue;
            }
            for value in flag.values(value)? {
                add(&mut words, flag.name, value.as_deref());
            }
        }
        Some(words)
    }
}

/// A path of these things.
#[must_use]
pub fn address(path: &str, named: &[&str]) -> String {
    let mut named = named.iter();
    let parts = path.split('/').map(|part| match is_named(part) {
        true => segment(named.next().copied().unwrap_or_default()),
        false => part.to_owned(),
    });
    parts.collect::<Vec<_>>().join("/")
}

/// Whether a part of a path stands for what an address names.
fn is_named(part: &str) -> bool {
    part.starts_with('{')
}

/// Adds a flag. A value that begins like a flag stands in one word with it.
pub fn add(words: &mut Vec<String>, flag: &str, value: Option<&str>) {
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
        About::of_operation(self.operation.as_deref()?)?.words(self)
    }

    /// A line that a person can paste into a shell; the request that it is where the program has no command for it. A
    /// command that starts a process is a comment: without the settings and secrets of the installation it would open
    /// other servers, and make a database of its own. `url`: of the API, where the command has to name it.
    #[must_use]
    pub fn line(&self, program: &str, url: Option<&str>) -> String {
        if let Some(command) = &self.command {
            let title = &self.title;
            return format!("# {title}, with your settings and secrets: {program} {command}");
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
