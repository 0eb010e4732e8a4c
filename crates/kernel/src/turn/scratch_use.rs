//! How much room the scratch files of a running attempt take, against what they may. A step writes its
//! files by itself, so this looks from time to time, and once more before a result counts.

use crate::engine::Engine;
use crate::error::{StepError, StepResult};
use crate::ports::Scratch;
use counterstep_contracts::TaskId;
use counterstep_contracts::bytes::format_bytes;
use futures::future::pending;
use std::sync::Arc;
use std::time::Duration;

/// Between two looks.
const LOOK: Duration = Duration::from_millis(500);

/// The scratch files of one step of a task on this host.
#[derive(Debug, Clone)]
pub(super) struct ScratchUse {
    scratch: Arc<dyn Scratch>,
    task: TaskId,
    step: String,
    /// Bytes that they may take.
    most: Option<u64>,
    /// Bytes that those of all tasks may take.
    most_of_all: Option<u64>,
}

impl ScratchUse {
    pub(super) fn of(engine: &Engine, task: TaskId, step: &str, most: Option<u64>) -> Self {
        Self {
            scratch: engine.ports.scratch.clone(),
            task,
            step: step.to_owned(),
            most,
            most_of_all: engine.settings.scratch_quota,
        }
    }

    /// Ends once they take more than they may.
    pub(super) async fn too_much(&self, engine: &Engine) -> StepError {
        if self.most.is_none() && self.most_of_all.is_none() {
            return pending().await;
        }
        let mut before = 0;
        loop {
            engine.ports.clock.sleep(LOOK).await;
            if let Err(error) = self.check(&mut before).await {
                return error;
            }
        }
    }

    /// Whether they are within their quota now.
    pub(super) async fn check_result(&self) -> StepResult<()> {
        let Some(most) = self.most else { return Ok(()) };
        // A folder that cannot be read is no reason to throw a result away.
        let used = self.scratch.used(self.task, &self.step).await.unwrap_or(0);
        within(used, most)
    }

    /// `before`: what they took at the last look. An attempt that takes no more than before is not the one
    /// that fills the disk.
    async fn check(&self, before: &mut u64) -> StepResult<()> {
        let Ok(used) = self.scratch.used(self.task, &self.step).await else {
            return Ok(());
        };
        if let Some(most) = self.most {
            within(used, most)?;
        }
        let grows = used > std::mem::replace(before, used);
        let Some(most) = self.most_of_all.filter(|_| grows) else {
            return Ok(());
        };
        match self.scratch.used_by_all().await {
            Ok(all) if all > most => Err(StepError::transient(format_args!(
                "the scratch files of this host take {}, more than its quota of {} (setting `scratch_quota`)",
                format_bytes(all),
                format_bytes(most)
            ))),
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

fn within(used: u64, most: u64) -> StepResult<()> {
    if used <= most {
        return Ok(());
    }
    Err(StepError::permanent(format_args!(
        "the scratch files of the step take {}, more than its quota of {} (key `scratch`)",
        format_bytes(used),
        format_bytes(most)
    )))
}
