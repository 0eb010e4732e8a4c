//! What a rule finds.

use std::fmt;

/// One breach of a rule, with what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) file: String,
    /// Counted from one.
    pub(super) line: usize,
    pub(super) text: String,
}

impl Violation {
    pub(super) fn new(file: &str, line: usize, text: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line,
            text: text.into(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.text)
    }
}

pub(super) type Found = Result<Vec<Violation>, String>;
