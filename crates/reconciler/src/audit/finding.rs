//! What can be wrong with a chain, as data.

use counterstep_kernel::audit::one_line;
use serde::Serialize;
use std::fmt;

/// By this name findings, and copies of ends, know the chain of changes beside tasks.
pub(super) const CHANGES: &str = "administration";

/// What has become of a row of the journal, or of what its task's row says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(tag = "damage", content = "part", rename_all = "snake_case")]
pub enum Damage {
    /// This part of it is not what was written.
    Changed(Part),
    /// Rows are gone: before it, or from this place on where the task's row knows of more.
    Missing,
    /// It was not written at this place of this chain.
    Inserted,
    /// There is no such task.
    NoTask,
    /// It is as it was written, and by this part of it it cannot stand behind the rows before it.
    Illegal(Part),
    /// The task's row is not what its journal says, in this part.
    RowDiffers(Part),
    /// It is not the row, or not the seal, that was copied.
    NotAsCopied,
    /// An object to which an output of the task refers is not there.
    ObjectMissing,
}

/// The part of a row that is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// What it says.
    Text,
    /// Its time.
    Time,
    /// Its link to the row before it.
    Link,
    /// Its seal.
    Seal,
    /// What was handed in: it has not the digest that the row says, or is not encrypted and has to be.
    Data,
    /// The number or the state with which its events begin.
    Order,
    /// The state to which its events lead; of a task's row, its state.
    State,
    /// The output of a step, which was committed, and is gone or another one.
    Output,
    /// Its last row in the journal.
    Head,
    /// Its columns.
    Fields,
    /// How the rows stand to each other, without a single cause that explains it.
    Chain,
}

impl Damage {
    /// Its name as text.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Changed(_) => "changed",
            Self::Missing => "missing",
            Self::Inserted => "inserted",
            Self::NoTask => "no task",
            Self::Illegal(_) => "illegal",
            Self::RowDiffers(_) => "row differs",
            Self::NotAsCopied => "not as copied",
            Self::ObjectMissing => "object missing",
        }
    }

    /// The part that is damaged, where there is one.
    #[must_use]
    pub const fn part(self) -> Option<Part> {
        match self {
            Self::Changed(part) | Self::Illegal(part) | Self::RowDiffers(part) => Some(part),
            Self::Missing
            | Self::Inserted
            | Self::NoTask
            | Self::NotAsCopied
            | Self::ObjectMissing => None,
        }
    }
}

impl Part {
    /// Its name as text.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Time => "time",
            Self::Link => "link",
            Self::Seal => "seal",
            Self::Data => "data",
            Self::Order => "order",
            Self::State => "state",
            Self::Output => "output",
            Self::Head => "head",
            Self::Fields => "fields",
            Self::Chain => "chain",
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.part() {
            Some(part) => write!(f, "{} ({})", self.as_str(), part.as_str()),
            None => f.write_str(self.as_str()),
        }
    }
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The task; `administration`: the audit of changes beside tasks.
    pub task: String,
    /// The place of the row of the journal concerned; of a gap the first that is missing. `None`:
    /// the task's own row is concerned.
    pub rev: Option<i64>,
    /// What is wrong.
    #[serde(flatten)]
    pub damage: Damage,
    /// How that shows: what the rows around it say.
    pub says: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A damaged row may hold anything, and must not write control characters to a terminal.
        let (task, says) = (self.task.escape_debug(), one_line(&self.says));
        let of = if self.task == CHANGES { "" } else { "task " };
        match self.rev {
            Some(rev) => write!(f, "{of}{task} row {rev}: {}: {says}", self.damage),
            None => write!(f, "{of}{task}: {}: {says}", self.damage),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_one_line_whatever_the_rows_say() {
        let says = "it is \u{1b}[2J\nchecked 1 rows of 1 tasks: nothing was found".to_owned();
        let finding = Finding {
            task: "x\ny".to_owned(),
            rev: None,
            damage: Damage::RowDiffers(Part::State),
            says,
        };
        let shown = finding.to_string();
        assert!(!shown.chars().any(char::is_control), "{shown:?}");
        assert!(shown.contains("\\u{1b}[2J\\nchecked"), "{shown:?}");
    }
}
