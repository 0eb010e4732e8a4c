//! The port for local files of one host.

use super::ByteStream;
use crate::scratch::{ScratchFile, ScratchPlace, Sealed};
use async_trait::async_trait;
use counterstep_contracts::TaskId;
use std::fmt::Debug;
use std::path::PathBuf;

/// Local files of this host.
#[async_trait]
pub trait Scratch: Send + Sync + Debug {
    /// Makes an empty file for writing.
    async fn create(&self, place: &ScratchPlace, name: &str) -> std::io::Result<PathBuf>;

    /// Measures a written file and moves it to the place that its content names.
    async fn seal(&self, place: &ScratchPlace, path: &std::path::Path) -> std::io::Result<Sealed>;

    /// The path of a finished file; `None`: this host does not have it (any more).
    async fn locate(&self, task: TaskId, file: &ScratchFile) -> std::io::Result<Option<PathBuf>>;

    /// Streams a local file.
    async fn read(&self, path: &std::path::Path) -> std::io::Result<ByteStream>;

    /// Bytes that the files of a step of a task take on the disk, finished or not.
    async fn used(&self, task: TaskId, step: &str) -> std::io::Result<u64>;

    /// Bytes that all files take on the disk; may be a second old.
    async fn used_by_all(&self) -> std::io::Result<u64>;

    /// Removes all scratch of a task. Nothing there is success.
    async fn remove(&self, task: TaskId) -> std::io::Result<()>;

    /// Tasks that have scratch on this host.
    async fn tasks(&self) -> std::io::Result<Vec<TaskId>>;
}
