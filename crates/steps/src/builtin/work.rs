//! What the engine is to do for a built-in step, as data.

use crate::error::{StepError, StepResult};
use crate::ports::Method;
use crate::scratch::ScratchFile;
use crate::times::DbTime;
use counterstep_contracts::children::MOST_CHILDREN;
use counterstep_contracts::{FileName, StoredFile, UploadedFile};
use serde_json::Value;
use std::time::Duration;

/// What the engine is to do for a built-in step.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    /// Store files.
    Upload(Upload),
    /// Wait.
    Wait(Wait),
    /// Ask a service.
    Call(Call),
}

/// Where the bytes of an upload come from.
#[derive(Debug, Clone, PartialEq)]
pub enum FileSource {
    /// A file of the request: its bytes are streamed to their place while the request arrives.
    Request(UploadedFile),
    /// A local file that an earlier step on this host made.
    Scratch(ScratchFile),
    /// A file that is in the object store already: it is copied.
    Stored(StoredFile),
}

impl FileSource {
    /// The name it has where the step gives it no other.
    #[must_use]
    pub fn name(&self) -> &FileName {
        match self {
            Self::Request(file) => &file.name,
            Self::Scratch(file) => &file.name,
            Self::Stored(file) => &file.name,
        }
    }

    /// Bytes, as far as they are known before they are read.
    #[must_use]
    pub const fn size_bytes(&self) -> u64 {
        match self {
            Self::Request(_) => 0,
            Self::Scratch(file) => file.size_bytes,
            Self::Stored(file) => file.size_bytes,
        }
    }
}

impl From<&UploadedFile> for FileSource {
    fn from(file: &UploadedFile) -> Self {
        Self::Request(file.clone())
    }
}
impl From<&ScratchFile> for FileSource {
    fn from(file: &ScratchFile) -> Self {
        Self::Scratch(file.clone())
    }
}
impl From<&StoredFile> for FileSource {
    fn from(file: &StoredFile) -> Self {
        Self::Stored(file.clone())
    }
}

/// What a built-in upload is to do. Made by [`UploadMany`](super::UploadMany) and
/// [`UploadOne`](super::UploadOne).
#[derive(Debug, Clone, PartialEq)]
pub struct Upload {
    /// Declared bucket; the settings may map it to another one.
    pub bucket: String,
    /// In order; object `n` of the attempt is source `n`.
    pub sources: Vec<(FileSource, Option<FileName>)>,
    /// Whether the output is a list.
    pub many: bool,
    /// Whether an empty list is acceptable.
    pub may_be_empty: bool,
    /// Media type of what is stored; `None`: that of its source.
    pub content_type: Option<String>,
}

/// No wait is longer: about a hundred years, which no deadline of a person's is, and which every
/// database can add to its clock.
pub const LONGEST_WAIT: Duration = Duration::from_secs(36_500 * 24 * 3600);

/// What a step waits for. Made by the types in [`waits`](crate::waits) and
/// [`children`](crate::children).
#[derive(Debug, Clone, PartialEq)]
pub enum Wait {
    /// This long from the step's start.
    For(Duration),
    /// Until this time of the database's clock, microseconds since 1970.
    Until(DbTime),
    /// For a signal, this long from the step's start.
    Signal(Duration),
    /// For tasks that the step submits.
    Tasks(Tasks),
}

/// A task that a step submits.
#[derive(Debug, Clone, PartialEq)]
pub struct ChildRequest {
    /// Declared name of its type.
    pub of: &'static str,
    /// The version of it that the code names: another one may take another request.
    pub version: u32,
    /// Its request.
    pub request: Value,
}

/// Tasks that a step submits and waits for.
#[derive(Debug, Clone, PartialEq)]
pub struct Tasks {
    /// The requests, in order.
    pub list: Vec<ChildRequest>,
    /// Maximum number of tasks under way at a time; at least one.
    pub at_a_time: usize,
    /// Number of tasks that have to complete.
    pub need: usize,
    /// Once `need` have completed, the others are told to stop. Otherwise all are waited for.
    pub stops_early: bool,
    /// How long they may take together, from the step's start.
    pub within: Duration,
    /// What the step gives.
    pub shape: TasksShape,
    /// Why they cannot be submitted; `None`: they can.
    pub fault: Option<String>,
}

/// What a step gives that waits for tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TasksShape {
    /// The response of its only task.
    One,
    /// The responses, in order.
    Responses,
    /// How each of them ended, in order.
    Outcomes,
    /// The same, each with its type.
    Branches,
}

impl Wait {
    /// When it is over, for a step that starts at `now`.
    ///
    /// # Errors
    /// Permanent, when that is more than [`LONGEST_WAIT`] away.
    pub fn due(&self, now: DbTime) -> StepResult<DbTime> {
        let due = match self {
            Self::For(duration) | Self::Signal(duration) => now.later(*duration),
            Self::Until(due) => *due,
            Self::Tasks(tasks) => {
                tasks.look()?;
                now.later(tasks.within)
            }
        };
        if due.after(now) > LONGEST_WAIT {
            return Err(StepError::permanent(
                "a step waits for at most 36500 days: give it a shorter wait",
            ));
        }
        Ok(due)
    }
}

impl Tasks {
    /// Whether they can be submitted.
    ///
    /// # Errors
    /// Permanent, when a request has no JSON form, or they are too many.
    fn look(&self) -> StepResult<()> {
        if let Some(fault) = &self.fault {
            return Err(StepError::permanent(fault));
        }
        if self.list.len() > MOST_CHILDREN {
            return Err(StepError::permanent(format_args!(
                "a step submits at most {MOST_CHILDREN} tasks, and this one {}: give each of several tasks a part of \
                 the list",
                self.list.len()
            )));
        }
        if self.need > self.list.len() {
            return Err(StepError::permanent(format_args!(
                "{} of the step's tasks have to complete, and it submits {}",
                self.need,
                self.list.len()
            )));
        }
        Ok(())
    }
}

/// A call without the type of its answer.
#[derive(Debug, Clone)]
pub struct Call {
    /// The service, by its name in the settings.
    pub service: &'static str,
    /// HTTP method.
    pub method: Method,
    /// Path and query below the service's URL, escaped.
    pub path: String,
    /// The body, where there is one.
    pub body: Option<Value>,
    /// Statuses that are success as well.
    pub accepted: Vec<u16>,
    /// Statuses that may pass by themselves.
    pub retried: Vec<u16>,
    /// The longest answer that is read, in bytes.
    pub longest_answer: usize,
    /// Why it cannot be sent; `None`: it can.
    pub(crate) fault: Option<String>,
    pub(crate) read: ReadAnswer,
}

/// Checks what a service has answered and gives it the form in which it is stored.
pub(crate) type ReadAnswer = fn(&[u8]) -> Result<Value, String>;

impl PartialEq for Call {
    fn eq(&self, other: &Self) -> bool {
        // Not the function: it follows from the declared type.
        (
            self.service,
            self.method,
            &self.path,
            &self.body,
            &self.fault,
        ) == (
            other.service,
            other.method,
            &other.path,
            &other.body,
            &other.fault,
        ) && (&self.accepted, &self.retried, self.longest_answer)
            == (&other.accepted, &other.retried, other.longest_answer)
    }
}
