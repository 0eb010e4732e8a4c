//! Errors of steps, classified where they are understood.
//!
//! There is no `From<E>` for errors of others on purpose: the author of a step knows whether an error
//! passes by itself, and declares it.

use counterstep_contracts::cause::{FailureClass, Origin};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::fmt;
use std::time::Duration;

/// What an error means for the next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ErrorClass {
    /// It may pass by itself: try again under the retry policy.
    Transient,
    /// It will not pass: never tried again.
    Permanent,
    /// The other side asks for patience: try again, no sooner than this.
    RateLimited(Duration),
    /// The attempt ran longer than its limit. Retried like a transient error. Set by the engine.
    TimedOut,
    /// The step's code panicked. Retried like a transient error. Set by the engine.
    Panicked,
    /// The step stopped because its token was cancelled on request. Never tried again.
    Cancelled,
}

impl ErrorClass {
    /// The stable text used in rows, JSON and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        let class = match self {
            Self::Transient => FailureClass::Transient,
            Self::Permanent => FailureClass::Permanent,
            Self::RateLimited(_) => FailureClass::RateLimited,
            Self::TimedOut => FailureClass::TimedOut,
            Self::Panicked => FailureClass::Panicked,
            Self::Cancelled => FailureClass::Cancelled,
        };
        class.as_str()
    }

    /// Whether another attempt may help.
    #[must_use]
    pub const fn is_retryable(self) -> bool {
        match self {
            Self::Transient | Self::RateLimited(_) | Self::TimedOut | Self::Panicked => true,
            Self::Permanent | Self::Cancelled => false,
        }
    }
}

/// What a step, or an undo, returns when it does not succeed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepError {
    /// What it means for the next attempt.
    pub class: ErrorClass,
    /// What was wrong, with the chain of its causes, free of secrets: it goes into rows and to
    /// clients.
    pub message: String,
    /// Where it came from, when `RUST_BACKTRACE` asks for it. For the audit, never for clients.
    pub backtrace: Option<String>,
    /// What it was about, where it is known as data: a call that failed, or a panic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Box<Origin>>,
}

/// The longest message kept; the rest is cut.
const MESSAGE_LIMIT: usize = 2_000;

impl StepError {
    /// An error of this class.
    #[must_use]
    pub fn new(class: ErrorClass, message: impl fmt::Display) -> Self {
        let backtrace = std::backtrace::Backtrace::capture();
        let backtrace = (backtrace.status() == std::backtrace::BacktraceStatus::Captured)
            .then(|| storable(&backtrace.to_string(), 16_000));
        Self {
            class,
            message: storable(&one_line(&message.to_string()), MESSAGE_LIMIT),
            backtrace,
            origin: None,
        }
    }

    /// It was about this.
    #[must_use]
    pub fn about(mut self, origin: Origin) -> Self {
        self.origin = Some(Box::new(origin));
        self
    }

    /// Code panicked.
    #[must_use]
    pub fn panicked(what: &str, panic: CaughtPanic) -> Self {
        let error = Self::new(
            ErrorClass::Panicked,
            format_args!("{what} panicked: {panic}"),
        );
        Self {
            origin: panic.origin,
            ..error
        }
    }

    /// It may pass by itself.
    #[must_use]
    pub fn transient(message: impl fmt::Display) -> Self {
        Self::new(ErrorClass::Transient, message)
    }

    /// It will not pass.
    #[must_use]
    pub fn permanent(message: impl fmt::Display) -> Self {
        Self::new(ErrorClass::Permanent, message)
    }

    /// The other side asks to wait at least this long.
    #[must_use]
    pub fn rate_limited(after: Duration, message: impl fmt::Display) -> Self {
        Self::new(ErrorClass::RateLimited(after), message)
    }

    /// The step stopped because `ctx.cancelled()` said so.
    #[must_use]
    pub fn cancelled() -> Self {
        Self::new(ErrorClass::Cancelled, "stopped on request")
    }
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.class.as_str())
    }
}

impl std::error::Error for StepError {}

/// An error that knows its class, so that a step takes it with `?`. For error types of one's own;
/// those of others are classified where they are met, with [`Classify`].
#[diagnostic::on_unimplemented(
    message = "nothing says whether `{Self}` passes by itself, so `?` cannot make a `StepError` of it",
    label = "put `.transient(\"..\")?` or `.permanent(\"..\")?` here",
    note = "`.transient(\"doing what\")?` where another attempt may help, `.permanent(\"doing what\")?` where none will"
)]
pub trait IntoStepError {
    /// The error with its class.
    fn into_step_error(self) -> StepError;
}

impl<E: IntoStepError> From<E> for StepError {
    fn from(error: E) -> Self {
        error.into_step_error()
    }
}

thread_local! {
    /// Where the last panic of this thread was, until it is taken.
    static PANICKED: RefCell<Option<Box<Origin>>> = const { RefCell::new(None) };
}

/// Notes where this thread panics. To be called in the process's panic hook: who catches a panic is given its
/// message alone.
pub fn note_panic(location: &std::panic::Location<'_>) {
    let origin = Origin::panic(location.file(), location.line());
    // A panic while its thread ends has no one to take it.
    let _ = PANICKED.try_with(|panicked| *panicked.borrow_mut() = Some(Box::new(origin)));
}

/// A panic that was caught: what it said, and where it was.
#[derive(Debug)]
pub struct CaughtPanic {
    message: String,
    origin: Option<Box<Origin>>,
}

impl CaughtPanic {
    /// To be called on the thread that panicked, before any other code of it can.
    #[must_use]
    pub fn of(panic: &(dyn std::any::Any + Send)) -> Self {
        Self {
            message: panic_message(panic).to_owned(),
            origin: PANICKED.take(),
        }
    }

    /// Of code that was dropped before its end.
    #[must_use]
    pub fn dropped() -> Self {
        Self {
            message: "it was dropped before its end".to_owned(),
            origin: None,
        }
    }
}

impl fmt::Display for CaughtPanic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// What a panic said.
#[must_use]
pub fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("with a value that is no text")
}

/// Control characters as their escapes: a message may repeat what a client said, and is one line of
/// a log.
fn one_line(text: &str) -> std::borrow::Cow<'_, str> {
    if !text.contains(char::is_control) {
        return text.into();
    }
    let escaped = |c: char| {
        if c.is_control() {
            c.escape_default().to_string()
        } else {
            c.to_string()
        }
    };
    text.chars().map(escaped).collect::<String>().into()
}

/// Cuts a text to `limit` bytes at a character, and takes out the NUL that no database column
/// takes.
fn storable(text: &str, limit: usize) -> String {
    let mut end = text.len().min(limit);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].replace('\0', "\u{fffd}")
}

/// What an author says in a line for people: control characters are written out, and what is longer than
/// `limit` bytes is cut. Also for the engine's own lines.
#[doc(hidden)]
pub fn bounded_line(message: impl fmt::Display, limit: usize) -> String {
    /// Stops a message that is far too long while it is written.
    struct Bounded(String, usize);

    impl fmt::Write for Bounded {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            if self.0.len() > self.1 {
                return Err(fmt::Error);
            }
            self.0.push_str(text);
            Ok(())
        }
    }

    let mut text = Bounded(String::new(), limit);
    // An error only says that there is more than is kept.
    let _ = fmt::Write::write_fmt(&mut text, format_args!("{message}"));
    storable(&one_line(&text.0), limit)
}

/// Result of a step.
pub type StepResult<T> = Result<T, StepError>;

/// Result of an undo. "It is not there" is success.
pub type UndoResult = Result<(), StepError>;

/// Says, where an error is understood, what it means for the next attempt.
///
/// ```
/// # use counterstep_steps::{Classify, StepResult};
/// fn size(path: &std::path::Path) -> StepResult<u64> {
///     Ok(std::fs::metadata(path).transient("reading the size of the archive")?.len())
/// }
/// ```
pub trait Classify<T> {
    /// It may pass by itself; `doing` says what was being done.
    ///
    /// # Errors
    /// The error, as transient.
    fn transient(self, doing: &str) -> StepResult<T>;

    /// It will not pass; `doing` says what was being done.
    ///
    /// # Errors
    /// The error, as permanent.
    fn permanent(self, doing: &str) -> StepResult<T>;
}

impl<T, E: std::error::Error> Classify<T> for Result<T, E> {
    fn transient(self, doing: &str) -> StepResult<T> {
        self.map_err(|error| StepError::transient(format_args!("{doing}: {}", chain(&error))))
    }

    fn permanent(self, doing: &str) -> StepResult<T> {
        self.map_err(|error| StepError::permanent(format_args!("{doing}: {}", chain(&error))))
    }
}

/// An error and its causes in one line. A cause that the outer text already repeats is left out.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let part = error.to_string();
        if !text.contains(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::guarded;

    #[test]
    fn a_panic_has_its_place_where_the_hook_notes_it() {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            panic.location().into_iter().for_each(note_panic);
            before(panic);
        }));
        let line = line!() + 1;
        let panics = || -> StepResult<()> { panic!("no 17") };
        let error = guarded("the code", panics).unwrap_err();
        assert_eq!(error.to_string(), "the code panicked: no 17 (panicked)");
        let place = error.origin.and_then(|origin| origin.place);
        let place = place.expect("a place");
        assert!(place.ends_with(&format!("error.rs:{line}")), "{place}");
        // It goes with the error, as over the frame of an isolated step.
        let error = StepError::permanent("x").about(Origin::panic("src/a.rs", 1));
        let text = serde_json::to_string(&error).expect("a text");
        assert_eq!(serde_json::from_str::<StepError>(&text).expect("it"), error);
    }
}
