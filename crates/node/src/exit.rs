//! What a process prints, and how it ends, in the codes of `sysexits.h`, so that a supervisor can tell a bad setting
//! from a bad day.

use counterstep_adapters::transient::is_transient;
use std::fmt;
use std::io::Write as _;
use std::process::ExitCode;

/// Why a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitKind {
    /// It did its work, and part of it failed: 1.
    Failed,
    /// An argument of the command cannot be used: 2, as where the command line cannot be read.
    Usage,
    /// A server that it needs does not answer, its disk is full, or the schema is about to be brought up to date: 69.
    Unavailable,
    /// Its settings are not usable, or a newer program has changed the database's schema: 78. Starting it again will not help.
    Config,
}

impl ExitKind {
    /// The process's exit code.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Unavailable => 69,
            Self::Config => 78,
        }
    }
}

/// An end that is not success: what was wrong, what was expected, what to do.
#[derive(Debug)]
pub struct Exit {
    /// Kind of the failure.
    pub kind: ExitKind,
    /// For people, with the chain of causes.
    pub message: String,
}

impl Exit {
    /// Its settings are not usable.
    #[must_use]
    pub fn config(message: impl fmt::Display) -> Self {
        Self {
            kind: ExitKind::Config,
            message: message.to_string(),
        }
    }

    /// An argument of the command cannot be used; the message names it.
    #[must_use]
    pub fn usage(message: impl fmt::Display) -> Self {
        Self {
            kind: ExitKind::Usage,
            message: message.to_string(),
        }
    }

    /// A server does not answer.
    #[must_use]
    pub fn unavailable(message: impl fmt::Display) -> Self {
        Self {
            kind: ExitKind::Unavailable,
            message: message.to_string(),
        }
    }

    /// A file or folder of its settings cannot be used, for this reason.
    #[must_use]
    pub fn of_disk(message: impl fmt::Display, why: &(dyn std::error::Error + 'static)) -> Self {
        if is_transient(why) {
            Self::unavailable(message)
        } else {
            Self::config(message)
        }
    }

    /// Its work failed.
    #[must_use]
    pub fn failed(message: impl fmt::Display) -> Self {
        Self {
            kind: ExitKind::Failed,
            message: message.to_string(),
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Exit {}

/// Prints to standard output; a reader that went away (`| head`) is no error.
///
/// # Errors
/// [`Exit`], where it cannot be written for another reason.
pub fn print(text: &str) -> Result<(), Exit> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Exit::failed(
            format_args!("standard output cannot be written: {error}"),
        )),
        _ => Ok(()),
    }
}

/// Turns a main's result into an exit code, and says on standard error what was wrong.
#[must_use]
pub fn report(program: &str, result: Result<(), Exit>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(exit) => {
            // A reader that went away (`2>&1 | head`) is no error of its own.
            let _ = writeln!(std::io::stderr(), "{program}: {}", exit.message);
            ExitCode::from(exit.kind.code())
        }
    }
}
