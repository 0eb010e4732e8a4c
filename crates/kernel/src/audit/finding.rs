//! What can be wrong with a chain, as data.

use serde::Serialize;
use std::fmt;

/// What has become of an entry, or of what its task's row says.
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
    /// Its link or its seal is gone, while there were links already when it was written.
    Unsealed,
    /// One or more entries before it are gone.
    Missing,
    /// The entries from this place on are gone: the task's row knows of more.
    CutOff,
    /// Nobody wrote it as a part of this chain.
    Inserted,
    /// It is an entry of this chain, at another place than its own.
    Moved,
    /// It does not begin in the state in which the one before it ends.
    DoesNotFollow,
    /// What the task's row says of its last entry is not that of any.
    HeadChanged,
    /// The task's row is in another state than its audit.
    StatusDiffers,
    /// There is no such task.
    NoTask,
    /// It is not the entry, or not the seal, that was copied.
    NotAsCopied,
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
            Self::Missing => "missing",
            Self::CutOff => "cut off",
            Self::Inserted => "inserted",
            Self::Moved => "moved",
            Self::DoesNotFollow => "does not follow",
            Self::HeadChanged => "head changed",
            Self::StatusDiffers => "status differs",
            Self::NoTask => "no task",
            Self::NotAsCopied => "not as copied",
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
    /// The task.
    pub task: String,
    /// The place of the entry concerned, as its row has it; of a gap the first that is missing. `None`: it is the task's
    /// row that is concerned.
    pub seq: Option<i64>,
    /// What is wrong.
    pub damage: Damage,
    /// How that shows: what the rows around it say.
    pub says: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.seq {
            Some(seq) => write!(f, "task {} entry {seq}: {}: {}", self.task, self.damage, self.says),
            None => write!(f, "task {}: {}: {}", self.task, self.damage, self.says),
        }
    }
}
