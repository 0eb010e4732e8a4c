//! A finished local file as a value, and how it is found in an output.

use counterstep_contracts::{FileName, TaskId};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use std::marker::PhantomData;

/// A finished local file, named by its content. It holds no path: where it lies depends on the
/// host, and a rebuilt file with the same bytes is the same `ScratchFile`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScratchFile {
    /// What people would call it.
    pub name: FileName,
    /// Bytes.
    pub size_bytes: u64,
    /// Lower-case hexadecimal SHA-256 of the bytes.
    pub sha256: String,
    /// The task whose step made it.
    pub task: TaskId,
    /// The step that made it.
    pub step: String,
    // `&mut` is not `UnwindSafe`, so neither is this type nor one that holds it: that is how
    // `CrossesHosts` (a blanket impl over `UnwindSafe`) refuses it at compile time. See
    // docs/decisions/0005-scratch.md.
    local: PhantomData<&'static mut ()>,
}

impl ScratchFile {
    /// A file as it was sealed.
    pub(super) fn of(name: &FileName, sealed: Sealed, place: &ScratchPlace) -> Self {
        Self {
            name: name.clone(),
            size_bytes: sealed.size_bytes,
            sha256: sealed.sha256,
            task: place.task,
            step: place.step.clone(),
            local: PhantomData,
        }
    }
}

/// The key under which a scratch file stands in JSON, so that it can be found in any output.
const MARKER: &str = "$scratch";

#[derive(Serialize, Deserialize)]
struct Fields {
    name: FileName,
    size_bytes: u64,
    sha256: String,
    task: TaskId,
    step: String,
}

#[derive(Serialize, Deserialize)]
struct Marked {
    #[serde(rename = "$scratch")]
    scratch: Fields,
}

impl Serialize for ScratchFile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self {
            name,
            size_bytes,
            sha256,
            task,
            step,
            local: _,
        } = self.clone();
        Marked {
            scratch: Fields {
                name,
                size_bytes,
                sha256,
                task,
                step,
            },
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ScratchFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Fields {
            name,
            size_bytes,
            sha256,
            task,
            step,
        } = Marked::deserialize(deserializer)?.scratch;
        if sha256.len() != 64 || !sha256.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(D::Error::custom(
                "a scratch file's SHA-256 must be 64 hexadecimal digits",
            ));
        }
        Ok(Self {
            name,
            size_bytes,
            sha256,
            task,
            step,
            local: PhantomData,
        })
    }
}

/// Every scratch file of a task that stands anywhere in a step's output. Data that a client or a service has sent may
/// look like one: it cannot name a task that does not exist yet.
#[must_use]
pub fn scratch_files_in(task: TaskId, output: &Value) -> Vec<ScratchFile> {
    fn walk(value: &Value, found: &mut Vec<ScratchFile>) {
        match value {
            Value::Object(map) => {
                if map.len() == 1 && map.contains_key(MARKER) {
                    found.extend(ScratchFile::deserialize(value).ok());
                } else {
                    map.values().for_each(|inner| walk(inner, found));
                }
            }
            Value::Array(list) => list.iter().for_each(|inner| walk(inner, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut found = Vec::new();
    walk(output, &mut found);
    found.retain(|file| file.task == task);
    found
}

/// What a scratch file turned out to be when it was finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    /// Bytes.
    pub size_bytes: u64,
    /// Lower-case hexadecimal SHA-256.
    pub sha256: String,
}

/// The owner of a scratch file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScratchPlace {
    /// The task.
    pub task: TaskId,
    /// The step that makes it.
    pub step: String,
}
