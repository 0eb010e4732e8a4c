//! Objects of an attempt that did not end well, and that are an output after all: its probe has found them.

use crate::errand::only;
use crate::lost::lost_at;
use counterstep_contracts::{Attempt, Direction, StepNo, TaskStatus};
use counterstep_kernel::contracts::FileName;
use counterstep_kernel::ports::{Intent, IntentOp};
use counterstep_kernel::{Probe, StepContext, StepResult, StoredFile, UndoResult};
use counterstep_macros::distributed_task;
use counterstep_testkit::{Form, Harness, TestTask};
use futures::StreamExt;
use serde::{Deserialize, Serialize};
use std::sync::Mutex;
use std::time::Duration;

/// What the lost attempt has stored. A catalogue outside would know.
static FILED: Mutex<Option<StoredFile>> = Mutex::new(None);

#[derive(Serialize, Deserialize)]
struct Minutes {}

struct Filing;

#[distributed_task(cancellable)]
impl Filing {
    type Request = Minutes;
    type Response = String;

    #[step(1, host = "worker", probe = look, undo = remove)]
    async fn file(ctx: &StepContext) -> StepResult<StoredFile> {
        let body = futures::stream::once(async { Ok("minutes".into()) }).boxed();
        let name = FileName::parse("minutes").expect("a name");
        let stored = ctx.objects().put("files", &name, "text/plain", body).await?;
        *FILED.lock().expect("no holder of the lock panics") = Some(stored);
        std::future::pending().await
    }

    async fn look() -> StepResult<Probe<StoredFile>> {
        let filed = FILED.lock().expect("no holder of the lock panics").clone();
        Ok(filed.map_or(Probe::NothingHappened, Probe::Done))
    }

    async fn remove(ctx: &StepContext) -> UndoResult {
        ctx.objects().delete_all_of_step().await.map(drop)
    }

    fn respond(file: &StoredFile) -> String {
        file.key.clone()
    }
}

async fn condemned(task: &TestTask) -> usize {
    let prefix = task.history().await.attempts[0].prefix.clone();
    let (step, direction, attempt) = (StepNo(1), Direction::Forward, Attempt(1));
    let intent = Intent { task: task.id, step, direction, attempt, prefix, overdue: Duration::ZERO };
    task.engine.ports.store.intents(IntentOp::Condemn(vec![intent])).await.expect("an answer").len()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_probe_has_found_is_kept_from_the_sweep() {
    // The attempt must outlast the host, however busy the machine is.
    let harness = Harness::embedded(only::<Filing>())
        .loses_hosts()
        .settings(|settings| settings.step_timeout = Duration::from_secs(60));
    let task = harness.submit(Form::new()).await;
    lost_at(&task.engine, task.id, || FILED.lock().expect("no holder of the lock panics").is_some()).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    assert_eq!(task.record().await.steps[0].attempts, Attempt(1), "it did not run again");
    assert_eq!(condemned(&task).await, 0, "the output of a completed step");
    assert_eq!(task.objects().await.len(), 1);
}
