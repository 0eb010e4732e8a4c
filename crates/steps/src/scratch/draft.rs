//! A local file while it is written.

use super::{ScratchFile, ScratchPlace};
use crate::error::{StepError, StepResult};
use crate::ports::Scratch;
use counterstep_contracts::{Attempt, Epoch, FileName};
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
        Ok(ScratchFile::of(&self.name, sealed, &self.place))
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
