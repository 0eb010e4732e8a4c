//! Requests as a client would send them.

use serde_json::Value;

/// A form: text fields, then files.
#[derive(Debug, Clone, Default)]
pub struct Form {
    pub(crate) fields: Vec<(String, Value)>,
    pub(crate) files: Vec<(String, String, Vec<u8>)>,
}

impl Form {
    /// With nothing in it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With a field.
    #[must_use]
    pub fn field(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.fields.push((name.to_owned(), value.into()));
        self
    }

    /// With a file.
    #[must_use]
    pub fn file(mut self, field: &str, name: &str, bytes: impl Into<Vec<u8>>) -> Self {
        self.files
            .push((field.to_owned(), name.to_owned(), bytes.into()));
        self
    }
}

/// Two small files in the field `files`, both of the same name.
#[must_use]
pub fn two_files() -> Form {
    Form::new()
        .file("files", "note.txt", "the first")
        .file("files", "note.txt", "the second")
}
