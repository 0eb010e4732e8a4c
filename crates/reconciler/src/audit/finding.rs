//! What can be wrong with a chain, as data.

use counterstep_kernel::audit::one_line;
use serde::Serialize;
use std::fmt;

/// By this name findings, and copies of ends, know the chain of changes beside tasks.
pub(super) const CHANGES: &str = "administration";

/// What has become of a row of the journal, or of what its task's row says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Damage {
    /// It says something else than when it was written.
    Changed,
    /// Its time is another one than when it was written.
    TimeChanged,
    /// What it says is whole, and the link beside it is not its own.
    LinkChanged,
    /// What it says is whole, and the seal beside it is not its own.
    SealChanged,
    /// Its link or its seal is gone.
    Unsealed,
    /// What was handed in is not what its digest in the row says.
    DataChanged,
    /// What was handed in is not encrypted, and the row, or one before it, was written with a payload key.
    Plaintext,
    /// It is as it was written, and begins in another state, or with another event, than the row
    /// before it ends: the task's row was changed in between.
    DoesNotFollow,
    /// One or more rows before it are gone.
    Missing,
    /// The rows from this place on are gone: the task's row knows of more.
    CutOff,
    /// It was not written as a part of this chain.
    Inserted,
    /// It is a row of this chain, at another place than its own.
    Moved,
    /// What the task's row says of its last row in the journal is not that of any.
    HeadChanged,
    /// The task's row is in another state than its journal.
    StatusDiffers,
    /// There is no such task.
    NoTask,
    /// It is not the row, or not the seal, that was copied.
    NotAsCopied,
    /// A row cannot be applied to what the rows before it fold to.
    Unfolded,
    /// The judge does not allow what an event of the row leads to.
    Illegal,
    /// The output of a step, which was committed, is gone or another one since the row.
    OutputReplaced,
    /// The task's row is not what its journal folds to.
    RowDiffers,
    /// An object to which an output of the task refers is not there.
    ObjectMissing,
    /// The chain does not hold, and nothing says more precisely why.
    Unexplained,
}

impl Damage {
    /// Its name in words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::TimeChanged => "time changed",
            Self::LinkChanged => "link changed",
            Self::SealChanged => "seal changed",
            Self::Unsealed => "unsealed",
            Self::DataChanged => "data changed",
            Self::Plaintext => "plaintext",
            Self::DoesNotFollow => "does not follow",
            Self::Missing => "missing",
            Self::CutOff => "cut off",
            Self::Inserted => "inserted",
            Self::Moved => "moved",
            Self::HeadChanged => "head changed",
            Self::StatusDiffers => "status differs",
            Self::NoTask => "no task",
            Self::NotAsCopied => "not as copied",
            Self::Unfolded => "unfolded",
            Self::Illegal => "illegal",
            Self::OutputReplaced => "output replaced",
            Self::RowDiffers => "row differs",
            Self::ObjectMissing => "object missing",
            Self::Unexplained => "unexplained",
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
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
            damage: Damage::StatusDiffers,
            says,
        };
        let shown = finding.to_string();
        assert!(!shown.chars().any(char::is_control), "{shown:?}");
        assert!(shown.contains("\\u{1b}[2J\\nchecked"), "{shown:?}");
    }
}
