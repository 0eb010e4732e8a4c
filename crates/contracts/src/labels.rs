//! Labels: a few names with values, by which a task is found. They come with the submission and never
//! change.

use crate::file::is_direction_control;
use crate::forms::{OF_ONE_LINE, ONE_LINE};
use crate::ids::TaskId;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Maximum number of labels of one task.
pub const MOST_LABELS: usize = 16;
/// Names that begin so are the engine's own: no client and no type sets one.
const RESERVED: &str = "counterstep.";
/// Of a task that runs another one again: the id of that one.
pub const PREDECESSOR: &str = "counterstep.predecessor";
/// The same: the step from which it runs, where it does not from the start.
pub const FROM_STEP: &str = "counterstep.from";
/// Maximum number of reserved labels of one task.
const MOST_RESERVED: usize = 2;
/// Maximum bytes of a name.
const LONGEST_NAME: usize = 64;
/// Maximum bytes of a value.
const LONGEST_VALUE: usize = 256;

/// The labels of a task, by name. What is read from a row or a message is taken as it is; what comes
/// from outside goes through [`add`](Self::add).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Labels(BTreeMap<String, String>);

// By hand: the rules of names and values.
impl JsonSchema for Labels {
    fn schema_name() -> Cow<'static, str> {
        "Labels".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "description": "Names with values, by which a task is found",
            "propertyNames": { "pattern": format!("^{}$", name_form()) },
            "additionalProperties": {
                "type": "string",
                "minLength": 1,
                "maxLength": LONGEST_VALUE,
                "pattern": ONE_LINE,
            },
            "maxProperties": MOST_LABELS + MOST_RESERVED,
        })
    }
}

/// The form of a name, as a part of a pattern.
fn name_form() -> String {
    format!("[a-z0-9][a-z0-9_.-]{{0,{}}}", LONGEST_NAME - 1)
}

/// The form of a label as `name=value`, as a pattern of a schema. It counts characters, and the rule bytes.
pub(crate) fn pair_form() -> String {
    format!("^{}={OF_ONE_LINE}{{1,{LONGEST_VALUE}}}$", name_form())
}

/// Why a label is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    /// The name is not of its form.
    #[error(
        "invalid label name `{}`: expected 1 to 64 of a-z 0-9 _ . - with a letter or digit first",
        short(.0)
    )]
    Name(String),
    /// The value of the label of this name is not of its form.
    #[error(
        "invalid value of the label `{0}`: expected 1 to 256 bytes of UTF-8 without control characters or characters \
         that change the direction of text"
    )]
    Value(String),
    /// There is a name alone, where a pair is expected.
    #[error("the label `{}` has no value: expected name=value", short(.0))]
    NoValue(String),
    /// The same name once more.
    #[error("the label `{0}` stands twice; expected each name once")]
    Twice(String),
    /// Only the engine sets it.
    #[error(
        "the label `{0}` is set by the engine alone: names of others do not begin with `counterstep.`"
    )]
    Reserved(String),
    /// More than a task has.
    #[error("too many labels; expected at most 16 for a task")]
    TooMany,
    /// A client's label is declared by the task type, with another value.
    #[error("the label `{0}` is set by the task type, to another value; leave it out")]
    Declared(String),
}

impl LabelError {
    /// The name of the label at fault, where there is one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Name(name)
            | Self::NoValue(name)
            | Self::Value(name)
            | Self::Twice(name)
            | Self::Declared(name)
            | Self::Reserved(name) => Some(name),
            Self::TooMany => None,
        }
    }
}

/// A name that is none, as a message quotes it.
fn short(name: &str) -> String {
    name.chars()
        .take(LONGEST_NAME)
        .flat_map(char::escape_debug)
        .collect()
}

/// Whether a text is the name of a label.
#[must_use]
pub fn is_label_name(name: &str) -> bool {
    let is_sign = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    (1..=LONGEST_NAME).contains(&name.len())
        && name.bytes().next().is_some_and(is_sign)
        && name.bytes().all(|b| is_sign(b) || b"_.-".contains(&b))
}

fn is_value(value: &str) -> bool {
    (1..=LONGEST_VALUE).contains(&value.len())
        && !value
            .chars()
            .any(|c| c.is_control() || is_direction_control(c))
}

impl Labels {
    /// Without a label.
    #[must_use]
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Adds a label.
    ///
    /// # Errors
    /// [`LabelError`] says which rule it breaks; nothing is added then.
    pub fn add(&mut self, name: &str, value: &str) -> Result<(), LabelError> {
        if name.starts_with(RESERVED) {
            return Err(LabelError::Reserved(name.to_owned()));
        }
        if self.0.len() >= MOST_LABELS {
            self.check(name, value)?;
            return Err(LabelError::TooMany);
        }
        self.look_for(name, value)
    }

    /// Adds a label that tasks are looked for by: also one that only the engine sets.
    ///
    /// # Errors
    /// [`LabelError`], as [`add`](Self::add).
    pub fn look_for(&mut self, name: &str, value: &str) -> Result<(), LabelError> {
        self.check(name, value)?;
        if self.0.len() >= MOST_LABELS + MOST_RESERVED {
            return Err(LabelError::TooMany);
        }
        self.0.insert(name.to_owned(), value.to_owned());
        Ok(())
    }

    /// Labels that tasks are looked for by, each as `order=4711`.
    ///
    /// # Errors
    /// [`LabelError`], as [`add`](Self::add).
    pub fn of_pairs<'a>(pairs: impl IntoIterator<Item = &'a str>) -> Result<Self, LabelError> {
        let mut labels = Self::new();
        for pair in pairs {
            let none = || LabelError::NoValue(pair.to_owned());
            let (name, value) = pair.split_once('=').ok_or_else(none)?;
            labels.look_for(name, value)?;
        }
        Ok(labels)
    }

    fn check(&self, name: &str, value: &str) -> Result<(), LabelError> {
        if !is_label_name(name) {
            return Err(LabelError::Name(name.to_owned()));
        }
        if !is_value(value) {
            return Err(LabelError::Value(name.to_owned()));
        }
        if self.0.contains_key(name) {
            return Err(LabelError::Twice(name.to_owned()));
        }
        Ok(())
    }

    /// Sets those of a task that runs another one again.
    pub fn set_predecessor(&mut self, predecessor: TaskId, from: Option<&str>) {
        let set = |labels: &mut Self, name: &str, value: String| {
            labels.0.insert(name.to_owned(), value);
        };
        set(self, PREDECESSOR, predecessor.to_string());
        if let Some(from) = from {
            set(self, FROM_STEP, from.to_owned());
        }
    }

    /// The task that it runs again, and the step from which it does; `None`: it runs no other one again.
    #[must_use]
    pub fn predecessor(&self) -> Option<(TaskId, Option<&str>)> {
        let task = self.get(PREDECESSOR)?.parse().ok()?;
        Some((task, self.get(FROM_STEP)))
    }

    /// Adds a label that the task type declares. A client may send the same one.
    ///
    /// # Errors
    /// [`LabelError`], as [`add`](Self::add); [`LabelError::Declared`] where the client sent another
    /// value.
    pub fn declare(&mut self, name: &str, value: &str) -> Result<(), LabelError> {
        match self.get(name) {
            Some(sent) if sent == value => Ok(()),
            Some(_) => Err(LabelError::Declared(name.to_owned())),
            None => self.add(name, value),
        }
    }

    /// The value of a label.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Names and values, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Whether each of `others` is among these.
    #[must_use]
    pub fn contains(&self, others: &Self) -> bool {
        others
            .iter()
            .all(|(name, value)| self.get(name) == Some(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(name: &str, value: &str) -> Result<(), LabelError> {
        Labels::new().add(name, value)
    }

    #[test]
    fn a_name_is_lower_case_and_short_and_a_value_is_one_line() {
        let (longest_name, longest_value) = ("a".repeat(64), "é".repeat(128));
        for (name, value) in [
            ("order", "4711"),
            ("0.a_b-c", "Ünicode, with = and \" in it"),
            (&*longest_name, &*longest_value),
        ] {
            assert_eq!(added(name, value), Ok(()), "{name}={value}");
        }
        let too_long = "a".repeat(65);
        for name in ["", "Order", "_a", ".a", "-a", "a b", "é", "a=b", &*too_long] {
            assert_eq!(added(name, "x"), Err(LabelError::Name(name.to_owned())));
        }
        let too_long = "x".repeat(257);
        for value in ["", "a\nb", "a\u{0}", "a\u{202e}b", "\u{7f}", &*too_long] {
            assert_eq!(
                added("a", value),
                Err(LabelError::Value("a".to_owned())),
                "{value:?}"
            );
        }
    }

    #[test]
    fn a_task_has_sixteen_labels_of_different_names_at_most() {
        let mut labels = Labels::new();
        for n in 0..16 {
            labels.add(&format!("n{n}"), "x").unwrap();
        }
        assert_eq!(
            labels.add("n0", "y"),
            Err(LabelError::Twice("n0".to_owned()))
        );
        assert_eq!(labels.add("one-more", "x"), Err(LabelError::TooMany));
        assert_eq!(labels.len(), 16);
    }

    #[test]
    fn labels_of_the_engine_are_set_by_the_engine_alone_and_looked_for_by_all() {
        let predecessor: TaskId = "01930d2c-6c4b-7d5e-8f00-0123456789ab".parse().unwrap();
        let mut labels = Labels::new();
        for n in 0..16 {
            labels.add(&format!("n{n}"), "x").unwrap();
        }
        let reserved = |name: &str| Err(LabelError::Reserved(name.to_owned()));
        assert_eq!(labels.add(PREDECESSOR, "x"), reserved(PREDECESSOR));
        assert_eq!(labels.declare(FROM_STEP, "x"), reserved(FROM_STEP));
        assert_eq!(labels.predecessor(), None);
        labels.set_predecessor(predecessor, Some("charge"));
        assert_eq!(labels.predecessor(), Some((predecessor, Some("charge"))));
        let mut wanted = Labels::new();
        wanted
            .look_for(PREDECESSOR, &predecessor.to_string())
            .unwrap();
        assert!(labels.contains(&wanted));
    }

    #[test]
    fn a_client_may_repeat_a_declared_label_and_not_contradict_it() {
        let mut labels = Labels::new();
        labels.add("order", "1").unwrap();
        assert_eq!(labels.declare("order", "1"), Ok(()));
        assert_eq!(
            labels.declare("order", "2"),
            Err(LabelError::Declared("order".to_owned()))
        );
        assert_eq!(labels.declare("customer", "7"), Ok(()));
        assert_eq!(
            serde_json::to_string(&labels).unwrap(),
            r#"{"customer":"7","order":"1"}"#
        );
    }

    #[test]
    fn an_error_shows_no_control_character_and_no_more_than_a_name_has() {
        let shown = LabelError::Name(format!("\u{1b}[2J{}", "x".repeat(300))).to_string();
        assert!(
            shown.is_ascii() && shown.len() < 200 && !shown.contains('\u{1b}'),
            "{shown}"
        );
    }
}
