//! Built-in steps as values: the declaration's function says what is to be stored where, or what is
//! to be waited for (`waits`), or what is asked of which service (`call`); the engine streams,
//! records size and SHA-256, and deletes on undo.

use crate::call::Call;
use crate::scratch::ScratchFile;
use crate::task::ReadRequestFn;
use crate::waits::Wait;
use counterstep_contracts::{FileName, StoredFile, StoredFiles, UndoDecl, UploadedFile, WaitDecl};
use serde::Serialize;
use serde::de::DeserializeOwned;

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
    pub(crate) const fn size_bytes(&self) -> u64 {
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

/// What a built-in upload is to do. Made by [`UploadMany`] and [`UploadOne`].
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

/// A step whose work the engine does.
///
/// Sealed in effect: the engine only knows how to do what a [`Work`] can say.
#[diagnostic::on_unimplemented(
    message = "CS0043: `{Self}` is no built-in step",
    label = "expected `UploadMany`, `UploadOne`, `Sleep`, `AwaitSignal`, `MaybeSignal` or `HttpCall`",
    note = "a plain `fn` says what the engine is to do; a step with code of its own is an `async fn` that returns \
            `StepResult<Output>`"
)]
pub trait BuiltInStep {
    /// What the step gives to later steps.
    type Output: Serialize + DeserializeOwned + Send + Sync + 'static;
    /// Its name for the declaration, where the author does not write it.
    const OUTPUT: &'static str;
    /// What it waits for, where it is one of those that wait.
    const WAITS: Option<WaitDecl> = None;
    /// How it is undone where the declaration says nothing.
    const UNDO: UndoDecl = UndoDecl::BuiltIn;
    /// Whether it may say nothing of an undo, because [`UNDO`](Self::UNDO) holds then.
    const UNDONE_BY_THE_ENGINE: bool = true;
    /// Checks the body of a signal, where it waits for one.
    const READ_SIGNAL: Option<ReadRequestFn> = None;

    /// The work, as data.
    fn into_work(self) -> Work;
}

/// Stores several files; its output is [`StoredFiles`].
#[derive(Debug, Clone)]
pub struct UploadMany(Upload);

impl UploadMany {
    /// Stores `files` in `bucket`: files of the request, of an earlier step, or stored ones to be
    /// copied.
    pub fn to<'a, F: 'a>(bucket: &str, files: impl IntoIterator<Item = &'a F>) -> Self
    where
        FileSource: From<&'a F>,
    {
        Self(Upload {
            bucket: bucket.to_owned(),
            sources: files
                .into_iter()
                .map(|file| (FileSource::from(file), None))
                .collect(),
            many: true,
            may_be_empty: false,
            content_type: None,
        })
    }

    /// An empty list is fine. Without this, a request with no file is refused with 422.
    #[must_use]
    pub fn or_none(mut self) -> Self {
        self.0.may_be_empty = true;
        self
    }
}

impl BuiltInStep for UploadMany {
    type Output = StoredFiles;
    const OUTPUT: &'static str = "StoredFiles";
    fn into_work(self) -> Work {
        Work::Upload(self.0)
    }
}

/// Stores one file; its output is [`StoredFile`].
#[derive(Debug, Clone)]
pub struct UploadOne(Upload);

impl UploadOne {
    /// Stores `file` in `bucket`.
    pub fn to<'a, F: 'a>(bucket: &str, file: &'a F) -> Self
    where
        FileSource: From<&'a F>,
    {
        Self(Upload {
            bucket: bucket.to_owned(),
            sources: vec![(FileSource::from(file), None)],
            many: false,
            may_be_empty: false,
            content_type: None,
        })
    }

    /// Gives the stored file this name, where there is one; else it keeps its source's.
    #[must_use]
    pub fn named(mut self, name: &Option<FileName>) -> Self {
        for (_, given) in &mut self.0.sources {
            given.clone_from(name);
        }
        self
    }
}

impl UploadOne {
    /// The media type under which it is stored. A scratch file has none of its own.
    #[must_use]
    pub fn content_type(mut self, content_type: &str) -> Self {
        self.0.content_type = Some(content_type.to_owned());
        self
    }
}

impl BuiltInStep for UploadOne {
    type Output = StoredFile;
    const OUTPUT: &'static str = "StoredFile";
    fn into_work(self) -> Work {
        Work::Upload(self.0)
    }
}
