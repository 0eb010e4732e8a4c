//! Keys from a file in the form of `~/.aws/credentials`. Must not repeat what it reads in an error.

use std::path::Path;

/// Reads a file with keys. It is small, and read for each request that is signed, so that a
/// replaced key counts at once.
pub(crate) async fn read(store: &'static str, file: &Path) -> object_store::Result<String> {
    tokio::fs::read_to_string(file).await.map_err(|error| {
        let why = format!(
            "the credentials in {} cannot be read: {error}",
            file.display()
        );
        object_store::Error::Generic {
            store,
            source: why.into(),
        }
    })
}

/// Names in lower case and values of the `[default]` section, or of lines before any section;
/// without empty values.
pub(crate) fn entries(text: &str) -> impl Iterator<Item = (String, &str)> {
    let mut ours = true;
    text.lines().map(str::trim).filter_map(move |line| {
        if line.starts_with('[') {
            ours = line == "[default]";
            return None;
        }
        let (name, value) = line
            .split_once('=')
            .filter(|_| ours && !line.starts_with('#'))?;
        let value = value.trim();
        (!value.is_empty()).then(|| (name.trim().to_ascii_lowercase(), value))
    })
}
