//! Local files between steps of one host. They never cross hosts, and they may be gone: then the
//! engine runs the step that made them once more.

use crate::error::{StepError, StepResult};
use crate::ports::Scratch;
use counterstep_contracts::{Attempt, Epoch, FileName, TaskId};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
    /// The step that made it.
    pub step: String,
    // `&mut` is not `UnwindSafe`, so neither is this type nor one that holds it: that is how
    // `CrossesHosts` (a blanket impl over `UnwindSafe`) refuses it at compile time. See
    // docs/decisions.
    local: PhantomData<&'static mut ()>,
}

/// The key under which a scratch file stands in JSON, so that it can be found in any output.
const MARKER: &str = "$scratch";

#[derive(Serialize, Deserialize)]
struct Fields {
    name: FileName,
    size_bytes: u64,
    sha256: String,
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
            step,
            local: _,
        } = self.clone();
        Marked {
            scratch: Fields {
                name,
                size_bytes,
                sha256,
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
            step,
            local: PhantomData,
        })
    }
}

/// Every scratch file that stands anywhere in a step's output.
#[must_use]
pub fn scratch_files_in(output: &Value) -> Vec<ScratchFile> {
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
    found
}

/// A local file that is being written. Write to [`path`](Self::path), then [`seal`](Self::seal) it;
/// dropped before that, it is removed.
#[derive(Debug)]
pub struct ScratchDraft {
    scratch: Arc<dyn Scratch>,
    place: ScratchPlace,
    path: PathBuf,
    name: FileName,
    sealed: bool,
}

/// Whose scratch a file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScratchPlace {
    /// The task.
    pub task: TaskId,
    /// The step that makes it.
    pub step: String,
}

impl ScratchDraft {
    pub(crate) async fn create(
        scratch: Arc<dyn Scratch>,
        place: ScratchPlace,
        name: FileName,
        attempt: (Epoch, Attempt, u32),
    ) -> StepResult<Self> {
        let (epoch, number, n) = attempt;
        let path = scratch
            .create(&place, &format!("e{epoch}.{number}-{n}"))
            .await
            .map_err(|error| {
                StepError::transient(format_args!("creating the scratch file `{name}`: {error}"))
            })?;
        Ok(Self {
            scratch,
            place,
            path,
            name,
            sealed: false,
        })
    }

    /// Where to write. The file exists and is empty.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file once for its size and SHA-256 and gives it its final place.
    ///
    /// # Errors
    /// Transient, when the file cannot be read or moved.
    pub async fn seal(mut self) -> StepResult<ScratchFile> {
        let sealed = self
            .scratch
            .seal(&self.place, &self.path)
            .await
            .map_err(|error| {
                StepError::transient(format_args!(
                    "finishing the scratch file `{}`: {error}",
                    self.name
                ))
            })?;
        self.sealed = true;
        Ok(ScratchFile {
            name: self.name.clone(),
            size_bytes: sealed.size_bytes,
            sha256: sealed.sha256,
            step: self.place.step.clone(),
            local: PhantomData,
        })
    }
}

impl Drop for ScratchDraft {
    fn drop(&mut self) {
        if !self.sealed {
            // Best effort: what stays is removed with the task's scratch folder.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
