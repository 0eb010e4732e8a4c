//! Steps that store files.

use super::step::BuiltInStep;
use super::work::{FileSource, Upload, Work};
use counterstep_contracts::{FileName, StoredFile, StoredFiles};

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
