//! The ways to run the tasks that can be measured.

use serde::Serialize;

/// How the tasks are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Mode {
    /// Over HTTP with three services on PostgreSQL, NATS and Redis.
    Http,
    /// The same, and the third step fails: the two before it are undone.
    Failing,
    /// The engine in this process on PostgreSQL.
    Engine,
    /// The engine in this process on a file.
    Embedded,
}
