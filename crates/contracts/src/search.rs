//! What people type to find tasks: an expression, as the list of tasks takes it on the page, on the command line and as `q=` of the API.
//! Owns its grammar, and how an answer tells how it was read. Must not look anything up.

use crate::bulk::BulkFilter;
use crate::forms::WITHOUT_CONTROLS;
use crate::http::TaskSummary;
use crate::labels::is_label_name;
use crate::state::text_enum;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::fmt;

pub use crate::forms::LONGEST_SEARCH;

/// Maximum number of terms of one.
pub const MOST_TERMS: usize = 32;
/// Minimum characters of the ending of an id: a shorter one fits too many.
pub const SHORTEST_ENDING: usize = 8;
/// Maximum number of names of labels under which a value is looked for.
pub const MOST_LABEL_NAMES: usize = 50;

text_enum!(
    /// A condition that is named in an expression, as `type:CreateReport`.
    Field {
        /// Of this type, by its declared name or its route.
        Type = "type",
        /// In this state, or one of several: also `open`, `parked`, `ended`.
        Status = "status",
        /// With a failure of this class.
        Class = "class",
        /// With this in the text of the failure.
        Text = "text",
        /// Submitted since: a time, or how long ago.
        Since = "since",
        /// Submitted before.
        Until = "until",
        /// What is saved under this name.
        View = "view",
        /// The order: `newest` or `oldest`.
        Sort = "sort",
    }
);

/// A part of an expression. A task has to fit all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Term {
    /// `field:value`
    Field(Field, String),
    /// `name=value`
    Label(String, String),
    /// Anything else: what it is has to be looked up.
    Word {
        /// Without the quotes.
        text: String,
        /// It stood in quotes, so it is no name of a state or a type.
        is_quoted: bool,
    },
}

/// Why a text is no expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    /// More characters than one may have.
    #[error("a search has at most {LONGEST_SEARCH} characters: leave some out")]
    Long,
    /// A control character.
    #[error("a search has no control characters: leave them out")]
    Control,
    /// More terms than one may have.
    #[error("a search has at most {MOST_TERMS} terms: leave some out")]
    Many,
    /// A quote without another one.
    #[error("a quote is not closed: write \" behind the value, and \\\" for a quote in it")]
    Open,
    /// A field without a value.
    #[error("`{0}:` has no value: write it behind the colon, in quotes where it has spaces")]
    NoValue(&'static str),
}

/// Whether a text may be an expression, or the beginning of one.
///
/// # Errors
/// Where it is too long, or has control characters.
pub fn check(text: &str) -> Result<(), SearchError> {
    if text.chars().count() > LONGEST_SEARCH {
        return Err(SearchError::Long);
    }
    match text.contains(char::is_control) {
        true => Err(SearchError::Control),
        false => Ok(()),
    }
}

/// Reads an expression.
///
/// # Errors
/// Where it is none.
pub fn parse(text: &str) -> Result<Vec<Term>, SearchError> {
    check(text)?;
    let mut terms = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (piece, behind) = Piece::read(rest)?;
        terms.push(piece.term()?);
        rest = behind.trim_start();
    }
    if terms.len() > MOST_TERMS {
        return Err(SearchError::Many);
    }
    Ok(terms)
}

/// Characters up to a space that is not quoted.
#[derive(Default)]
struct Piece {
    /// Without the quotes.
    text: String,
    /// Bytes of it in front of the first quote.
    bare: Option<usize>,
}

impl Piece {
    fn read(text: &str) -> Result<(Self, &str), SearchError> {
        let mut piece = Self::default();
        let mut is_open = false;
        let mut signs = text.char_indices();
        while let Some((at, sign)) = signs.next() {
            match sign {
                '"' => {
                    piece.bare.get_or_insert(piece.text.len());
                    is_open = !is_open;
                }
                '\\' if is_open => {
                    let next = signs.next().ok_or(SearchError::Open)?;
                    piece.text.push(next.1);
                }
                _ if sign.is_whitespace() && !is_open => return Ok((piece, &text[at..])),
                _ => piece.text.push(sign),
            }
        }
        match is_open {
            true => Err(SearchError::Open),
            false => Ok((piece, "")),
        }
    }

    fn term(self) -> Result<Term, SearchError> {
        let Self { text, bare } = self;
        let names = &text[..bare.unwrap_or(text.len())];
        if let Some((name, _)) = names.split_once(':')
            && let Ok(field) = name.parse::<Field>()
        {
            let value = &text[name.len() + 1..];
            return match value.is_empty() {
                true => Err(SearchError::NoValue(field.as_str())),
                false => Ok(Term::Field(field, value.to_owned())),
            };
        }
        if let Some((name, _)) = names.split_once('=')
            && is_label_name(name)
        {
            let value = text[name.len() + 1..].to_owned();
            return Ok(Term::Label(name.to_owned(), value));
        }
        let is_quoted = bare == Some(0);
        Ok(Term::Word { text, is_quoted })
    }
}

/// A value as it stands in an expression.
#[must_use]
pub fn quoted(value: &str) -> String {
    let is_plain = |sign: char| !sign.is_whitespace() && sign != '"' && sign != '\\';
    match !value.is_empty() && value.chars().all(is_plain) {
        true => value.to_owned(),
        false => {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"");
            format!("\"{value}\"")
        }
    }
}

/// As it is read again.
impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(field, value) => write!(f, "{}:{}", field.as_str(), quoted(value)),
            Self::Label(name, value) => write!(f, "{name}={}", quoted(value)),
            Self::Word {
                text,
                is_quoted: true,
            } => {
                let text = text.replace('\\', "\\\\").replace('"', "\\\"");
                write!(f, "\"{text}\"")
            }
            Self::Word { text, .. } => f.write_str(&quoted(text)),
        }
    }
}

/// What a term was read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReadAs {
    /// The id of a task.
    Id,
    /// The ending of an id.
    Ending,
    /// A type.
    Type,
    /// States.
    Status,
    /// Labels.
    Label,
    /// A class of failures.
    Class,
    /// A text of a failure.
    Text,
    /// A time.
    Time,
    /// A saved view.
    View,
    /// The order of the list.
    Order,
    /// It fits several kinds of things: `fits` has each.
    Several,
}

/// A term, and what it was read as.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SearchedTerm {
    /// As it was sent.
    pub term: String,
    /// What it was read as.
    pub read_as: ReadAs,
    /// What it stands for: labels as `name=value`, ids, names of states and types. A task has one of them.
    pub fits: Vec<String>,
    /// Where not all was looked through: how far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub looked_at: Option<String>,
}

impl SearchedTerm {
    /// What people have to know of how it was read; `None`: it is what its words say. Where it fits several, they follow.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        let term = &self.term;
        let far = self.looked_at.as_ref();
        let far = far.map_or_else(String::new, |far| format!(", looked through {far}"));
        Some(match (&self.fits[..], self.read_as) {
            (_, ReadAs::Status) => return None,
            ([], _) => format!("Nothing fits `{term}`{far}"),
            ([one], _) if *one == *term && far.is_empty() => return None,
            ([_], ReadAs::Text | ReadAs::Class | ReadAs::Order) => return None,
            ([one], _) if self.term.ends_with(one) && far.is_empty() => return None,
            ([one], _) => format!("`{term}` is {one}{far}"),
            _ => format!("`{term}` fits several{far}"),
        })
    }
}

/// How an expression was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Searched {
    /// Its terms.
    pub terms: Vec<SearchedTerm>,
    /// The same as a filter, as operations on many tasks take it; missing where a term is an id or fits several things.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<BulkFilter>,
}

/// A page of tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TaskSummaryPage")]
pub struct FoundTasks {
    /// Newest first, unless another order was asked for. Where a list has to look for what fits, a page may hold few, or none, and
    /// go on all the same.
    pub items: Vec<TaskSummary>,
    /// Hand it back as `?cursor=` for the next page; missing on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// With `q`: how it was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<Searched>,
}

/// An expression that begins as what was typed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Suggestion {
    /// The whole expression.
    pub q: String,
    /// What the last term of it is.
    pub about: String,
}

/// The schema of an expression.
pub(crate) fn expression(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "maxLength": LONGEST_SEARCH, "pattern": WITHOUT_CONTROLS })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(text: &str) -> Term {
        Term::Word {
            text: text.to_owned(),
            is_quoted: false,
        }
    }

    fn label(name: &str, value: &str) -> Term {
        Term::Label(name.to_owned(), value.to_owned())
    }

    #[test]
    fn fields_labels_and_words_stand_side_by_side() {
        let read =
            parse(" type:BookSeat 4715  order=a=b:c text:\"card \\\"x\\\" declined\" ").unwrap();
        let text = Term::Field(Field::Text, "card \"x\" declined".to_owned());
        let of_type = Term::Field(Field::Type, "BookSeat".to_owned());
        assert_eq!(read, [of_type, word("4715"), label("order", "a=b:c"), text]);
        assert_eq!(parse("").unwrap(), []);
        // A name that is none of a field or of a label is a part of a word.
        for text in ["12:30", "https://bank?x=1", "Order=1", "=x"] {
            assert_eq!(parse(text).unwrap(), [word(text)]);
        }
        let quoted = Term::Word {
            text: "type:x failed".to_owned(),
            is_quoted: true,
        };
        assert_eq!(parse("\"type:x failed\"").unwrap(), [quoted]);
        assert_eq!(parse("who=\"Ada L\"").unwrap(), [label("who", "Ada L")]);
    }

    #[test]
    fn what_is_written_is_read_again_as_it_was() {
        for text in [
            "a \"b c\" x=\"y z\" text:\"q\\\"\\\\ \" \"\" n=\"\"",
            "status:open since:2h sort:oldest view:late",
        ] {
            let read = parse(text).unwrap();
            let written: Vec<_> = read.iter().map(Term::to_string).collect();
            assert_eq!(parse(&written.join(" ")).unwrap(), read, "{written:?}");
        }
    }

    #[test]
    fn what_is_no_expression_is_refused_with_what_to_write() {
        let many = "x ".repeat(MOST_TERMS + 1);
        let long = "x".repeat(LONGEST_SEARCH + 1);
        for (text, error) in [
            ("a \"b", SearchError::Open),
            ("a \"b\\", SearchError::Open),
            ("type:", SearchError::NoValue("type")),
            ("since:\"\"", SearchError::NoValue("since")),
            (&many, SearchError::Many),
            (&long, SearchError::Long),
            ("order=\0", SearchError::Control),
        ] {
            assert_eq!(parse(text), Err(error), "{text}");
        }
    }
}
