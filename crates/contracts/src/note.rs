//! Why a person decides so, and who, as the audit keeps it. Must not decide who may.

use std::fmt;

/// Maximum characters of a note: a page, not a file.
const LONGEST_NOTE: usize = 4_000;
/// Maximum characters of the name of who decides.
const LONGEST_ACTOR: usize = 100;

/// Why a person decides so, and the name that the caller gives itself. The audit's actor is whom the caller was
/// authenticated as. As a text it is the note, and the name behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Why.
    pub text: String,
    /// Who decides.
    pub actor: Option<String>,
}

/// Which of the two cannot be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoteFault {
    /// The note.
    Note,
    /// The name.
    Actor,
}

impl Note {
    /// Without blanks around either.
    ///
    /// # Errors
    /// Where one is blank, too long, or has control characters.
    pub fn of(note: &str, actor: Option<&str>) -> Result<Self, NoteFault> {
        let (text, actor) = (note.trim(), actor.map(str::trim));
        let is_odd = |sign: char| sign.is_control() && sign != '\n' && sign != '\t';
        if text.is_empty() || text.chars().count() > LONGEST_NOTE || text.chars().any(is_odd) {
            return Err(NoteFault::Note);
        }
        let is_name = |name: &str| {
            !name.is_empty()
                && name.chars().count() <= LONGEST_ACTOR
                && !name.chars().any(char::is_control)
        };
        if !actor.is_none_or(is_name) {
            return Err(NoteFault::Actor);
        }
        Ok(Self {
            text: text.to_owned(),
            actor: actor.map(str::to_owned),
        })
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        match &self.actor {
            Some(actor) => write!(f, " (by {actor})"),
            None => Ok(()),
        }
    }
}

impl NoteFault {
    /// The field of the body.
    #[must_use]
    pub const fn field(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Actor => "actor",
        }
    }
}

impl fmt::Display for NoteFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Note => write!(
                f,
                "`note` says why, in 1 to {LONGEST_NOTE} characters, without control characters but line ends and tabs: \
                 it is what the audit will show"
            ),
            Self::Actor => write!(
                f,
                "`actor` names who decides, in 1 to {LONGEST_ACTOR} characters of one line"
            ),
        }
    }
}
