//! What steps log: it can be read while they run and after their end, of steps, undos and probes; it is
//! bounded, and no task needs it.

use crate::errand::{QUICK, only};
use counterstep_contracts::log::LogPage;
use counterstep_contracts::{LogLevel, LogPart, TaskId, TaskStatus};
use counterstep_kernel::{Engine, status::task_log};
use counterstep_macros::distributed_task;
use counterstep_steps::{Probe, StepContext, StepError, StepResult, TaskLog, UndoResult};
use counterstep_testkit::many_tasks::eventually;
use counterstep_testkit::{Form, Harness};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};
use tokio::sync::Notify;

/// What holds a reporter up, by its name.
static GATES: LazyLock<Mutex<HashMap<String, Arc<Notify>>>> = LazyLock::new(Mutex::default);
/// What a reporter that has ended logged with.
static LOGS: LazyLock<Mutex<HashMap<String, TaskLog>>> = LazyLock::new(Mutex::default);

fn gate(name: &str) -> Arc<Notify> {
    GATES
        .lock()
        .unwrap()
        .entry(name.to_owned())
        .or_default()
        .clone()
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Story {
    /// Waits in between where it has a name.
    gate: Option<String>,
    lines: u32,
    fails: bool,
}

struct Report;

#[distributed_task(name = "Report", queue = "reports")]
impl Report {
    type Request = Story;
    type Response = u8;

    #[step(1, host = "worker", retry = QUICK, undo = retract, probe = look_back)]
    async fn tell(ctx: &StepContext, story: &Story) -> StepResult<u8> {
        ctx.log(LogLevel::Info, format_args!("try {}", ctx.attempt()));
        if let Some(name) = &story.gate {
            LOGS.lock().unwrap().insert(name.clone(), ctx.task_log());
            gate(name).notified().await;
        }
        for line in 0..story.lines {
            ctx.log(LogLevel::Debug, line);
        }
        if ctx.attempt().0 == 1 && story.fails {
            return Err(StepError::transient("the first try fails"));
        }
        ctx.log(LogLevel::Warn, "told\nit all");
        Ok(1)
    }

    async fn look_back(ctx: &StepContext) -> StepResult<Probe<u8>> {
        ctx.log(LogLevel::Info, "looked");
        Ok(Probe::NothingHappened)
    }

    async fn retract(ctx: &StepContext) -> UndoResult {
        ctx.log(LogLevel::Error, "retracted");
        Ok(())
    }

    #[step(2, host = "worker", no_undo = "test")]
    async fn publish(story: &Story) -> StepResult<u16> {
        if story.fails {
            return Err(StepError::permanent("the press is broken"));
        }
        Ok(2)
    }

    fn respond(tell: &u8) -> u8 {
        *tell
    }
}

async fn log(engine: &Engine, task: TaskId) -> LogPage {
    let read = task_log::read(&engine.ports.store, task, None, usize::MAX).await;
    read.expect("the store answers")
}

fn shown(page: &LogPage) -> Vec<String> {
    let line = |line: &counterstep_contracts::LogLine| {
        let (step, part, attempt) = (&line.step, line.part, line.attempt);
        format!("{step} {part} {attempt} {}: {}", line.level, line.message)
    };
    page.lines.iter().map(line).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_attempt_undo_and_probe_is_in_the_log_in_the_order_of_the_run() {
    let task = Harness::embedded(only::<Report>())
        .crash_before("tell")
        .submit(Form::new().field("fails", true))
        .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    let page = log(&task.engine, task.id).await;
    assert_eq!(
        shown(&page),
        [
            "tell probe 1 info: looked",
            "tell run 2 info: try 2",
            "tell run 2 warn: told\\nit all",
            "tell undo 1 error: retracted",
        ]
    );
    assert_eq!((page.dropped, page.unreadable), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_are_read_while_the_step_runs_and_leave_the_task_as_it_is() {
    let mut site = Harness::embedded(only::<Report>()).start().await;
    site.serve(2);
    let gate = gate("runs");
    let form = Form::new().field("gate", "runs").field("fails", true);
    let task = site.submit(form).await;
    let page = eventually("a line of a running step", || async {
        let page = log(&site.engine, task).await;
        (!page.lines.is_empty()).then_some(page)
    })
    .await;
    assert_eq!(shown(&page), ["tell run 1 info: try 1"]);
    let record = site.record(task).await;
    assert_eq!(record.task.status, TaskStatus::Running);
    assert_eq!(record.task.rev.0, 2, "submitted and claimed");
    gate.notify_one();
    // The second try, of the same turn or of the next.
    eventually("a line of the next try", || async {
        (log(&site.engine, task).await.lines.len() == 2).then_some(())
    })
    .await;
    let late = LOGS.lock().unwrap()["runs"].clone();
    gate.notify_one();
    site.all_are(TaskStatus::Failed, &[task]).await;
    late.write(LogLevel::Info, "after its end");
    let page = log(&site.engine, task).await;
    let parts: Vec<_> = page
        .lines
        .iter()
        .map(|line| (line.part, line.attempt.0))
        .collect();
    let (run, undo) = (LogPart::Run, LogPart::Undo);
    assert_eq!(parts, [(run, 1), (run, 2), (run, 2), (undo, 1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_keeps_its_latest_lines_and_counts_the_others() {
    let task = Harness::embedded(only::<Report>())
        .submit(Form::new().field("lines", 5_000))
        .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    let page = log(&task.engine, task.id).await;
    assert_eq!((page.lines.len(), page.dropped), (200, 5_002 - 200));
    assert_eq!(page.lines[198].message, "4999");
    let rows = task
        .engine
        .ports
        .store
        .log(task.id)
        .await
        .expect("an answer");
    assert!(rows.len() <= 2, "{rows:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purged_task_leaves_no_line() {
    let task = Harness::embedded(only::<Report>())
        .submit(Form::new())
        .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    assert_eq!(log(&task.engine, task.id).await.lines.len(), 2);
    let record = task.record().await;
    let ended = counterstep_kernel::ports::EndedTask {
        task: task.id,
        tenant: record.task.tenant.clone(),
        rev: record.task.rev,
    };
    let purge = counterstep_kernel::ports::PurgeOp::Purge(vec![ended]);
    let purged = task.engine.ports.store.purge(&purge).await;
    assert_eq!(purged.expect("an answer").len(), 1);
    assert_eq!(log(&task.engine, task.id).await, LogPage::default());
}
