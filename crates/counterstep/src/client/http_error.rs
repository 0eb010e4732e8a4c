//! What comes in place of an answer of the API. Must not know what was asked.

use counterstep_contracts::problem::Problem;
use counterstep_steps::error::chain;
use reqwest::StatusCode;
use std::io;
use std::path::Path;
use std::time::Duration;

/// An answer that is not the one that was asked for.
#[derive(Debug, Clone)]
pub(crate) enum HttpError {
    /// None came, or not all of it.
    Unreachable(String),
    /// The API refuses, or asks to come again, perhaps after this time.
    Problem(Box<Problem>, Option<Duration>),
    /// What has answered is not the API, or a proxy before it.
    Answered(StatusCode),
    /// It is not of the form that this version knows.
    Unreadable(String),
    /// A file of this machine cannot be read.
    File(String),
    /// A file of this machine cannot be written.
    Output(String),
}

impl HttpError {
    pub(super) fn unreachable(error: &reqwest::Error) -> Self {
        Self::Unreachable(chain(error))
    }

    /// Whether the same request may be answered a little later.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable(_) => true,
            Self::Problem(problem, _) => matches!(problem.status, 408 | 429 | 500..),
            Self::Answered(status) => matches!(status.as_u16(), 408 | 429 | 500..),
            Self::Unreadable(_) | Self::File(_) | Self::Output(_) => false,
        }
    }

    pub(super) fn unread(path: &Path, error: &io::Error) -> Self {
        Self::File(format!("`{}` cannot be read: {error}", path.display()))
    }
}
