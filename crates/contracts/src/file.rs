//! Files as values: what a client uploaded, and what lies in the object store.

use crate::archive_name;
use crate::forms::FILE_NAME;
use icu_normalizer::ComposingNormalizerBorrowed;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::borrow::Cow;
use std::fmt;

/// A checked file name: metadata for people, never part of an object key or a local path.
///
/// 1 to 255 bytes of UTF-8; no path separator in any spelling, no drive letter, no control or
/// text-direction character, not `.` or `..`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct FileName(String);

/// Why a file name is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FileNameError {
    /// Empty, or only white space.
    #[error("a file name must not be empty")]
    Empty,
    /// Over 255 bytes.
    #[error("a file name must be at most 255 bytes of UTF-8")]
    TooLong,
    /// `.` or `..`.
    #[error("`.` and `..` are no file names")]
    Dots,
    /// A separator or drive letter, plain or percent-encoded.
    #[error(
        "a file name must not contain a path separator or a drive letter, also not percent-encoded: send the bare name"
    )]
    Path,
    /// A control character, or one that changes the direction of the text.
    #[error(
        "a file name must not contain control characters or characters that change the direction of text"
    )]
    Control,
}

impl FileName {
    /// Checks a name.
    ///
    /// # Errors
    /// [`FileNameError`] says which rule it breaks.
    pub fn parse(name: &str) -> Result<Self, FileNameError> {
        if name.trim().is_empty() {
            return Err(FileNameError::Empty);
        }
        if name.len() > 255 {
            return Err(FileNameError::TooLong);
        }
        if name == "." || name == ".." {
            return Err(FileNameError::Dots);
        }
        if name
            .chars()
            .any(|c| c.is_control() || is_direction_control(c))
        {
            return Err(FileNameError::Control);
        }
        let lower = name.to_ascii_lowercase();
        let encoded = ["%2e%2e", "%2f", "%5c", "%00", "%0a", "%0d"]
            .iter()
            .any(|code| lower.contains(code));
        let drive = matches!(name.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic());
        if name.contains(['/', '\\']) || encoded || drive {
            return Err(FileNameError::Path);
        }
        Ok(Self(name.to_owned()))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Stem and extension (with its dot; empty where there is none): `a.tar.gz` gives `a.tar` and
    /// `.gz`.
    #[must_use]
    pub fn split_extension(&self) -> (&str, &str) {
        archive_name::split_extension(&self.0)
    }
}

pub(crate) fn is_direction_control(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}' | '\u{feff}')
}

// By hand: the rules of names, but for those on percent-encoded paths and on bytes.
impl JsonSchema for FileName {
    fn schema_name() -> Cow<'static, str> {
        "FileName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "The name of a file, without a path: at most 255 bytes of UTF-8",
            "minLength": 1,
            "maxLength": 255,
            "pattern": FILE_NAME,
            "not": { "pattern": "^(\\.{1,2}|[A-Za-z]:.*)$" },
        })
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for FileName {
    type Error = FileNameError;
    fn try_from(name: String) -> Result<Self, Self::Error> {
        Self::parse(&name)
    }
}

impl<'de> Deserialize<'de> for FileName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// A file of a request. Its bytes went to the object store while the request arrived; this says
/// where they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UploadedFile {
    /// The form field it came in.
    pub field: String,
    /// What the client called it.
    pub name: FileName,
    /// As the client declared it; `application/octet-stream` otherwise. Never trusted for serving.
    pub content_type: String,
    /// Bytes.
    pub size_bytes: u64,
    /// Lower-case hexadecimal SHA-256 of the bytes.
    pub sha256: String,
    /// Declared bucket; empty until the upload step has said which.
    pub bucket: String,
    /// Object key; empty until the upload step has said which.
    pub key: String,
}

// What a client sends: the form has the bytes where the request has this.
impl JsonSchema for UploadedFile {
    fn schema_name() -> Cow<'static, str> {
        "UploadedFile".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "format": "binary",
            "contentMediaType": "application/octet-stream",
            "description": "A file: a part of the form with a file name",
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UploadedFileFields {
    field: String,
    name: FileName,
    content_type: String,
    size_bytes: u64,
    sha256: String,
    bucket: String,
    key: String,
}

impl From<UploadedFileFields> for UploadedFile {
    fn from(fields: UploadedFileFields) -> Self {
        let UploadedFileFields {
            field,
            name,
            content_type,
            size_bytes,
            sha256,
            bucket,
            key,
        } = fields;
        Self {
            field,
            name,
            content_type,
            size_bytes,
            sha256,
            bucket,
            key,
        }
    }
}

/// A form does not say whether a field holds one file or a list of them, so the API always hands
/// over a list, and a request that wants a single `UploadedFile` takes the only element. Two files
/// for it are an error.
impl<'de> Deserialize<'de> for UploadedFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneFile;
        impl<'de> Visitor<'de> for OneFile {
            type Value = UploadedFile;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("one uploaded file")
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<UploadedFile, A::Error> {
                UploadedFileFields::deserialize(de::value::MapAccessDeserializer::new(map))
                    .map(Into::into)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<UploadedFile, A::Error> {
                let file: UploadedFileFields = list
                    .next_element()?
                    .ok_or_else(|| de::Error::invalid_length(0, &self))?;
                if list.next_element::<de::IgnoredAny>()?.is_some() {
                    return Err(de::Error::invalid_length(2, &self));
                }
                Ok(file.into())
            }
        }
        deserializer.deserialize_any(OneFile)
    }
}

/// A file in the object store, as a step's output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StoredFile {
    /// What people call it.
    pub name: FileName,
    /// Declared bucket.
    pub bucket: String,
    /// Object key, `t/{tenant}/{task}/{step}/e{epoch}.{attempt}/{n}`.
    pub key: String,
    /// Bytes.
    pub size_bytes: u64,
    /// Lower-case hexadecimal SHA-256 of the bytes.
    pub sha256: String,
    /// Media type for the client that downloads it.
    pub content_type: String,
}

/// Several stored files, in the order of their sources.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct StoredFiles(pub Vec<StoredFile>);

impl StoredFiles {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the files in order.
    pub fn iter(&self) -> std::slice::Iter<'_, StoredFile> {
        self.0.iter()
    }

    /// Names for an archive or a folder of any system, one for each file in order. What Windows
    /// does not take in a name becomes `_` (`a*b` gives `a_b`, `con` gives `_con`, `a.txt.` gives
    /// `a.txt_`), and a name that stands twice gets a number before its extension (`a.txt`,
    /// `a (2).txt`). Names that differ only in case, or in how a letter is composed (`é` is one character or two), count as
    /// the same, because on some file systems they are. Each has at most 255 bytes.
    #[must_use]
    pub fn distinct_names(&self) -> Vec<String> {
        let mut taken = std::collections::HashSet::new();
        // The next number of names that stand twice, by what is left of them beside a number: searched for from 2 each time,
        // many of them would take quadratic time.
        let mut next = std::collections::HashMap::new();
        let mut names = Vec::with_capacity(self.len());
        for file in self {
            let original = archive_name::portable(file.name.as_str());
            let mut name = original.clone();
            if !taken.insert(without_case(&name)) {
                let number = {
                    let numbered = without_case(&archive_name::numbered(&original, 2));
                    next.entry(numbered).or_insert(2)
                };
                while {
                    name = archive_name::numbered(&original, *number);
                    *number += 1;
                    !taken.insert(without_case(&name))
                } {}
            }
            names.push(name);
        }
        names
    }
}

/// Equal for names that are one name on a file system without case, such as macOS's: canonical caseless matching (Unicode 3.13,
/// D145), with upper case and then lower case in place of the folding, which brings together a few letters more.
fn without_case(name: &str) -> String {
    let composing = ComposingNormalizerBorrowed::new_nfc();
    let folded = composing.normalize(name);
    // First lower: the capital ẞ has no other upper case, and its lower one has SS.
    let folded = folded.to_lowercase().to_uppercase().to_lowercase();
    composing.normalize(&folded).into_owned()
}

impl<'a> IntoIterator for &'a StoredFiles {
    type Item = &'a StoredFile;
    type IntoIter = std::slice::Iter<'a, StoredFile>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(name: &str) -> StoredFile {
        StoredFile {
            name: FileName::parse(name).unwrap(),
            bucket: "b".into(),
            key: "k".into(),
            size_bytes: 0,
            sha256: String::new(),
            content_type: String::new(),
        }
    }

    #[test]
    fn names_that_could_become_paths_are_refused() {
        let long = "x".repeat(300);
        for name in [
            "../../x",
            "/etc/x",
            "..\\..\\x",
            "C:\\x",
            "C:x",
            "%2e%2e%2f",
            "a%2Fb",
            "a\0b",
            "a\rb",
            "a\nb",
            "a\u{202e}b",
            &long,
            ".",
            "..",
            "",
            "  ",
        ] {
            assert!(FileName::parse(name).is_err(), "{name:?}");
        }
        for name in [
            "a.txt",
            "Ünïcode 名前.zip",
            ".gitignore",
            "100%.txt",
            "a..b",
        ] {
            assert!(FileName::parse(name).is_ok(), "{name:?}");
        }
    }

    #[test]
    fn files_of_one_name_get_distinct_names() {
        let files = StoredFiles(
            ["a.txt", "a.txt", "A.txt", "a (2).txt", ".env", ".env"]
                .map(stored)
                .to_vec(),
        );
        let names = files.distinct_names();
        assert_eq!(
            names,
            [
                "a.txt",
                "a (2).txt",
                "A (3).txt",
                "a (2) (2).txt",
                ".env",
                ".env (2)"
            ]
        );
    }

    #[test]
    fn names_that_are_one_name_on_another_system_get_distinct_names() {
        for [one, other] in [
            // Composed and decomposed; Hangul; both in another case; letters whose other case is two.
            ["é.txt", "e\u{301}.txt"],
            [
                "한글.txt",
                "\u{1112}\u{1161}\u{11ab}\u{1100}\u{1173}\u{11af}.txt",
            ],
            ["Ü.txt", "u\u{308}.txt"],
            ["straße.txt", "STRASSE.txt"],
            ["\u{1e9e}.txt", "ß.txt"],
            ["\u{1e9e}.txt", "ss.txt"],
            ["ΟΔΟΣ.txt", "οδοσ.txt"],
            ["\u{1fb3}", "\u{391}\u{345}"],
        ] {
            let names = StoredFiles([one, other].map(stored).to_vec()).distinct_names();
            assert_eq!(names[0], one);
            assert!(names[1].contains(" (2)"), "{names:?}");
        }
        let files = ["e.txt", "é.txt", "è.txt"].map(stored).to_vec();
        assert_eq!(
            StoredFiles(files).distinct_names(),
            ["e.txt", "é.txt", "è.txt"]
        );
    }

    /// In a time that grows with their number: quadratic, these would take minutes.
    #[test]
    fn very_many_files_of_one_name_get_distinct_names() {
        let files = StoredFiles(vec![stored("a.txt"); 100_000]);
        let names = files.distinct_names();
        assert_eq!(names[0], "a.txt");
        assert_eq!(names[99_999], "a (100000).txt");
        let distinct: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), 100_000);
        // Long ones, each twice, of which a number leaves the same.
        let long = |n: usize| format!("{}{n:05}", "x".repeat(250));
        let twice = (0..20_000).map(|n| stored(&long(n % 10_000)));
        let names = StoredFiles(twice.collect()).distinct_names();
        let distinct: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), 20_000);
    }

    #[test]
    fn a_single_file_is_read_from_a_list_of_one() {
        let file = serde_json::json!({"field": "f", "name": "n", "content_type": "", "size_bytes": 1, "sha256": "",
            "bucket": "", "key": ""});
        let one: UploadedFile = serde_json::from_value(serde_json::json!([file])).unwrap();
        let same: UploadedFile = serde_json::from_value(file.clone()).unwrap();
        assert_eq!(one, same);
        assert!(serde_json::from_value::<UploadedFile>(serde_json::json!([])).is_err());
        assert!(serde_json::from_value::<UploadedFile>(serde_json::json!([file, file])).is_err());
    }
}
