//! Every refusal as a problem document (RFC 9457). Owns which error becomes which code; what is our own fault goes to the
//! log in full and to the client without a word of it.

use counterstep_contracts::{Problem, ProblemCode};
use counterstep_kernel::admission::{SettingError, SettingOf};
use counterstep_kernel::change::ChangeError;
use counterstep_kernel::client::SubmitError;
use counterstep_kernel::engine::log_lines::LogLines;
use counterstep_kernel::ports::{ObjectError, StoreError};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// A request that is not answered as asked.
#[derive(Debug, Clone)]
pub struct Refused {
    // Boxed: a refusal is the rare end of functions that are called for every part of a form.
    problem: Box<Problem>,
    retry_after: Option<u32>,
}

impl Refused {
    /// With this code; `detail` says what was wrong, what was expected, what to do.
    #[must_use]
    pub fn new(code: ProblemCode, detail: impl Into<String>) -> Self {
        Self {
            problem: Box::new(Problem::new(code, detail)),
            retry_after: None,
        }
    }

    /// Names the field, header or parameter at fault.
    #[must_use]
    pub fn at(mut self, pointer: impl Into<String>) -> Self {
        self.problem.pointer = Some(pointer.into());
        self
    }

    /// Says when to come again, in seconds.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// Our own fault. `doing` and `error` go to the log, never to the client.
    #[must_use]
    pub fn internal(doing: &str, error: &dyn std::fmt::Display) -> Self {
        tracing::error!(%error, doing, "a request could not be handled");
        Self::new(
            ProblemCode::Internal,
            "this is our fault; the server's log has the details",
        )
    }

    /// The code.
    #[must_use]
    pub fn code(&self) -> ProblemCode {
        self.problem.code
    }

    /// The document.
    #[must_use]
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// When to come again, in seconds.
    #[must_use]
    pub fn seconds(&self) -> Option<u32> {
        self.retry_after
    }

    /// The document, and when to come again, in seconds.
    #[must_use]
    pub fn into_parts(self) -> (Problem, Option<u32>) {
        (*self.problem, self.retry_after)
    }

    /// What was wrong.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.problem.detail
    }
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.problem.fmt(f)
    }
}

impl From<SettingError> for Refused {
    fn from(error: SettingError) -> Self {
        match error {
            SettingError::Unknown(SettingOf::Queue) => Self::new(
                ProblemCode::NoSuchQueue,
                "see /api/queues for those that there are",
            ),
            SettingError::Unknown(SettingOf::Workers) => Self::new(
                ProblemCode::NoSuchWorkers,
                "see /api/workers for those that there are, by machine and role",
            ),
            SettingError::Unknown(SettingOf::Limit) => Self::new(
                ProblemCode::NoSuchLimit,
                "see /api/limits for those that there are",
            ),
            SettingError::Unknown(SettingOf::TaskType) => no_such_type(),
            SettingError::Moved(_) => {
                Self::new(ProblemCode::Unavailable, error.to_string()).retry_after(1)
            }
            SettingError::Store(error) => error.into(),
        }
    }
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(_) | StoreError::Unknown(_) => {
                unavailable("the database", &error)
            }
            StoreError::Unsupported(_) => {
                if let Some(left_out) = log_line("left to others") {
                    tracing::warn!(%error, left_out, "a request was for a task that this process has to leave to others");
                }
                let detail = "this process cannot read or write the task: a newer program has written it, or the \
                              tenant has no payload key here; try again, another process may be able to";
                Self::new(ProblemCode::Unavailable, detail).retry_after(1)
            }
            StoreError::Corrupt(_) => Self::internal("reading a row", &error),
        }
    }
}

impl From<ChangeError> for Refused {
    fn from(error: ChangeError) -> Self {
        match error {
            ChangeError::Gone => no_such_task(),
            ChangeError::Store(error) => error.into(),
            ChangeError::Fenced => {
                let detail = "a process claims the task at this moment: try again";
                Self::new(ProblemCode::Unavailable, detail).retry_after(1)
            }
            ChangeError::Illegal(_)
            | ChangeError::KeyTaken
            | ChangeError::PlaceTaken
            | ChangeError::Condemned
            | ChangeError::Sql(_) => Self::internal("changing a task", &error),
        }
    }
}

impl From<SubmitError> for Refused {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Invalid(error) => {
                let refused = Self::new(ProblemCode::InvalidRequest, error.message);
                match error.pointer.is_empty() {
                    true => refused,
                    false => refused.at(error.pointer),
                }
            }
            SubmitError::Label(error) => {
                let refused = Self::new(ProblemCode::InvalidLabel, error.to_string());
                match error.name() {
                    Some(name) => refused.at(format!("Counterstep-Label: {name}")),
                    None => refused.at("Counterstep-Label"),
                }
            }
            SubmitError::InProgress => Self::new(
                ProblemCode::InProgress,
                "the first request with this Idempotency-Key has not been answered yet: repeat this one later",
            )
            .retry_after(1),
            SubmitError::KeyMismatch => Self::new(
                ProblemCode::IdempotencyMismatch,
                "this Idempotency-Key belongs to a request with another body: repeat that body, or use a new key",
            )
            .at("Idempotency-Key"),
            SubmitError::TooSlow => {
                Self::new(ProblemCode::Unavailable, "the request's files were not stored in time: send it again")
                    .retry_after(1)
            }
            // The reconciler fires schedules; a request has none.
            SubmitError::Disabled(refusal) => {
                let refused = Self::new(ProblemCode::TypeDisabled, refusal.to_string());
                // A probe under way may decide at any moment; when a person does is unknown.
                let seconds = |time: Duration| u32::try_from(time.as_secs().max(1)).unwrap_or(u32::MAX);
                let after = refusal.retry_after.map(seconds).or(refusal.probing.then_some(5));
                match after {
                    Some(seconds) => refused.retry_after(seconds),
                    None => refused,
                }
            }
            // Until some are done: how long that takes, nothing here knows.
            error @ SubmitError::TooManyWaiting(_) => {
                Self::new(ProblemCode::TooManyWaiting, error.to_string()).retry_after(5)
            }
            // Until one of them is at rest, which the client can follow: no time is of use.
            error @ SubmitError::TooManyAtOnce(_) => {
                Self::new(ProblemCode::TooManyAtOnce, error.to_string())
            }
            SubmitError::PlaceTaken => {
                Self::new(ProblemCode::Unavailable, "other submissions took the slot concurrently: send it again")
                    .retry_after(1)
            }
            SubmitError::Moved => Self::internal("taking a request", &error),
            SubmitError::Store(error) => error.into(),
            // The kernel's word for it quotes whatever the reader of the bytes said; what that was
            // is known here only.
            SubmitError::Source(_) => Self::internal("storing a file of a request", &error),
            SubmitError::Objects(error @ ObjectError::Unavailable(_)) => unavailable("the object store", &error),
            SubmitError::Objects(_) | SubmitError::Declaration(_) => Self::internal("taking a request", &error),
        }
    }
}

/// Whether to write a line about requests that are refused; with how many that were left out.
#[must_use]
pub fn log_line(kind: &'static str) -> Option<u64> {
    static LINES: LogLines = LogLines::new();
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    LINES.next(kind, START.elapsed())
}

/// A server that is needed does not answer, or its disk is full; `what` names it without its address.
#[must_use]
pub fn unavailable(what: &'static str, error: &dyn std::fmt::Display) -> Refused {
    if let Some(left_out) = log_line(what) {
        tracing::warn!(%error, what, left_out, "a request failed for want of a server");
    }
    if is_full(&error.to_string()) {
        let detail = format!("{what} has no room left: try again once its operator has made some");
        return Refused::new(ProblemCode::StorageFull, detail).retry_after(60);
    }
    Refused::new(
        ProblemCode::Unavailable,
        format!("{what} does not answer: try again later"),
    )
    .retry_after(1)
}

/// By the words of the systems below, since every driver hands on words alone: Linux's for a disk and a quota, which PostgreSQL
/// quotes, and SQLite's.
fn is_full(error: &str) -> bool {
    const WORDS: [&str; 3] = [
        "No space left on device",
        "Disk quota exceeded",
        "database or disk is full",
    ];
    WORDS.iter().any(|words| error.contains(words))
}

/// A body that can be read and breaks a rule.
#[must_use]
pub fn invalid(detail: impl Into<String>) -> Refused {
    Refused::new(ProblemCode::InvalidRequest, detail)
}

/// No task type of this name.
#[must_use]
pub fn no_such_type() -> Refused {
    Refused::new(
        ProblemCode::NoSuchTaskType,
        "no task type has this name: GET /api/task-types lists them",
    )
}

/// No task of this id, or another tenant's: the two are not told apart.
#[must_use]
pub fn no_such_task() -> Refused {
    Refused::new(
        ProblemCode::NoSuchTask,
        "no task has this id: use the `task_id` of the answer to its submission",
    )
}

/// A task whose type this server does not know as the task was submitted under it.
pub(crate) fn unknown_type() -> Refused {
    let detail = "this server does not know the task's type, version and definition: ask one that runs the program it was \
                  submitted to, or see /why";
    Refused::new(ProblemCode::Unavailable, detail).retry_after(10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_from_a_server_that_does_not_answer() {
        let of_errno = |errno| std::io::Error::from_raw_os_error(errno).to_string();
        for (why, code) in [
            (of_errno(28), ProblemCode::StorageFull),
            (of_errno(122), ProblemCode::StorageFull),
            (
                "database or disk is full".to_owned(),
                ProblemCode::StorageFull,
            ),
            (of_errno(111), ProblemCode::Unavailable),
        ] {
            let stored = Refused::from(StoreError::Unavailable(why.clone()));
            let uploaded =
                Refused::from(SubmitError::Objects(ObjectError::Unavailable(why.clone())));
            assert_eq!((stored.code(), uploaded.code()), (code, code), "{why}");
        }
    }
}
