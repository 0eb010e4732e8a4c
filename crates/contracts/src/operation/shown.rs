//! What people see of an answer, as data: lines, or rows below shared heads. Must not know how wide a terminal is, nor what
//! time it is.

use crate::Labels;
use serde::de::DeserializeOwned;
use std::fmt;

/// What stands in a place of a table or of a line. Texts may be those of strangers: what prints them writes control characters out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cell {
    /// A text, which may be cut.
    Text(String),
    /// The id of a task. Its end is enough for people.
    Task(String),
    /// A name that people hand back, and so is whole.
    Name(String),
    /// A number.
    Number(u64),
    /// A time in RFC 3339; any other text stands as it is.
    Time(String),
    /// A length of time in seconds.
    Seconds(u64),
    /// These, one behind another. They may be cut behind a name that is the first of them.
    Parts(Vec<Self>),
}

impl Cell {
    /// Nothing.
    pub const NONE: Self = Self::Text(String::new());

    /// A text; empty where there is none.
    #[must_use]
    pub fn text(text: Option<&str>) -> Self {
        Self::Text(text.unwrap_or_default().to_owned())
    }

    /// A value as its text.
    #[must_use]
    pub fn of(value: &impl fmt::Display) -> Self {
        Self::Text(value.to_string())
    }

    /// The id of a task; empty where there is none.
    #[must_use]
    pub fn task(id: Option<&impl fmt::Display>) -> Self {
        id.map_or(Self::NONE, |id| Self::Task(id.to_string()))
    }

    /// A name.
    #[must_use]
    pub fn name(name: &impl fmt::Display) -> Self {
        Self::Name(name.to_string())
    }

    /// A number.
    #[must_use]
    pub fn number(number: impl Into<u64>) -> Self {
        Self::Number(number.into())
    }

    /// Labels; empty where there are none.
    #[must_use]
    pub fn labels(of: &Labels) -> Self {
        Self::Text(labels(of))
    }

    /// A time; empty where there is none.
    #[must_use]
    pub fn time(time: Option<&str>) -> Self {
        time.map_or(Self::NONE, |time| Self::Time(time.to_owned()))
    }
}

/// Labels as `customer=7 order=4711`.
#[must_use]
pub fn labels(labels: &Labels) -> String {
    let words = labels.iter().map(|(name, value)| format!("{name}={value}"));
    words.collect::<Vec<_>>().join(" ")
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// Rows below heads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// What its rows are, in the plural.
    pub what: &'static str,
    /// The heads of its columns.
    pub heads: Vec<&'static str>,
    /// Its rows: a cell for each head.
    pub rows: Vec<Vec<Cell>>,
    /// Whether there may be others than these.
    pub is_filtered: bool,
    /// The cursor of the page behind.
    pub next: Option<String>,
    /// Lines below it.
    pub below: Vec<Cell>,
    /// The heads of columns that are left out, in this order, where a terminal has no room for them beside the others.
    pub spare: &'static [&'static str],
}

impl Table {
    /// Of these rows.
    #[must_use]
    pub fn of(
        what: &'static str,
        heads: &[&'static str],
        rows: impl IntoIterator<Item = Vec<Cell>>,
    ) -> Self {
        Self {
            what,
            heads: heads.to_vec(),
            rows: rows.into_iter().collect(),
            is_filtered: false,
            next: None,
            below: Vec::new(),
            spare: &[],
        }
    }

    /// A page of a list, of which there may be more.
    #[must_use]
    pub fn page(self, is_filtered: bool, next: Option<&str>) -> Self {
        Self {
            is_filtered,
            next: next.map(str::to_owned),
            ..self
        }
    }
}

/// What people see of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum View {
    /// Lines.
    Lines(Vec<Cell>),
    /// Rows.
    Table(Table),
}

impl View {
    /// The same, where a filter may have left out all that there is.
    #[must_use]
    pub fn filtered(mut self, is_filtered: bool) -> Self {
        if let Self::Table(table) = &mut self {
            table.is_filtered |= is_filtered;
        }
        self
    }
}

/// An answer as people see it.
pub type ShownFn = fn(&[u8]) -> serde_json::Result<View>;

/// How an answer is shown to people.
#[derive(Debug)]
pub struct Shown<O> {
    read: fn(&[u8]) -> serde_json::Result<O>,
    view: fn(&O) -> View,
}

impl<O: DeserializeOwned> Shown<O> {
    /// So.
    #[must_use]
    pub const fn by(view: fn(&O) -> View) -> Self {
        let read = |bytes: &[u8]| serde_json::from_slice(bytes);
        Self { read, view }
    }
}

impl<O> Shown<O> {
    /// An answer as it came.
    pub(super) fn of(&self, answer: &[u8]) -> serde_json::Result<View> {
        Ok((self.view)(&(self.read)(answer)?))
    }
}
