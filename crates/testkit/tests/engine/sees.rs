//! What a step sees of its task beside its inputs: in a pure step ahead of the task, in a step, in
//! an undo and in a probe.

use crate::errand::only;
use counterstep_contracts::TaskStatus;
use counterstep_kernel::engine::faults::{Fault, FaultKind};
use counterstep_macros::distributed_task;
use counterstep_steps::{Probe, Registry, State, StepContext, StepResult, UndoResult};
use counterstep_testkit::{Form, Harness};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    part: &'static str,
    tenant: String,
    task_type: String,
    submitted_at: Option<SystemTime>,
    task_deadline: Option<SystemTime>,
    time_left: Duration,
    client_key: Option<String>,
    order: Option<String>,
    traceparent: Option<String>,
    trace_id: Option<String>,
}

#[derive(Clone, Default)]
struct Notebook(Arc<Mutex<Vec<Seen>>>);

impl Notebook {
    fn note(&self, part: &'static str, ctx: &StepContext) {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let seen = Seen {
            part,
            tenant: ctx.tenant().to_string(),
            task_type: ctx.task_type().to_owned(),
            submitted_at: ctx.submitted_at(),
            task_deadline: ctx.task_deadline(),
            time_left: ctx.time_left(),
            client_key: owned(ctx.client_key()),
            order: owned(ctx.labels().get("order")),
            traceparent: owned(ctx.traceparent()),
            trace_id: owned(ctx.trace_id()),
        };
        self.0.lock().expect("no test panics in here").push(seen);
    }

    fn seen(&self) -> Vec<Seen> {
        self.0.lock().expect("no test panics in here").clone()
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Nothing {}

struct Look;

#[distributed_task(name = "Look", timeout = "10m")]
impl Look {
    type Request = Nothing;
    type Response = u32;

    #[step(1, host = "api")]
    #[pure]
    async fn ahead(ctx: &StepContext, book: &State<Notebook>) -> StepResult<u32> {
        book.note("ahead", ctx);
        Ok(1)
    }

    #[step(2, host = "worker", timeout = "30s", undo = forget, probe = ask)]
    async fn look(ctx: &StepContext, book: &State<Notebook>) -> StepResult<u64> {
        book.note("look", ctx);
        let left = ctx.time_left();
        while ctx.time_left() == left {
            tokio::task::yield_now().await;
        }
        Ok(2)
    }

    async fn ask(ctx: &StepContext, book: &State<Notebook>) -> StepResult<Probe<u64>> {
        book.note("probe", ctx);
        Ok(Probe::Unknown)
    }

    async fn forget(ctx: &StepContext, book: &State<Notebook>) -> UndoResult {
        book.note("undo", ctx);
        Ok(())
    }

    #[step(3, host = "worker", no_undo = "looks only")]
    async fn leave() -> StepResult<bool> {
        Ok(true)
    }

    fn respond(ahead: &u32) -> u32 {
        *ahead
    }
}

fn program() -> Registry {
    only::<Look>()
}

#[tokio::test]
async fn every_execution_sees_its_task_and_the_submission() {
    let book = Notebook::default();
    let task = Harness::embedded(program())
        .provide(book.clone())
        .fault(Fault::at("leave", FaultKind::FailBefore))
        .crash_at("look")
        .submit(
            Form::new()
                .tenant("acme")
                .key("order-4711")
                .label("order", "4711")
                .traceparent(TRACE),
        )
        .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    let seen = book.seen();
    let parts: Vec<_> = seen.iter().map(|seen| seen.part).collect();
    assert_eq!(parts, ["ahead", "look", "probe", "look", "undo"]);

    let submitted = SystemTime::from(task.record().await.task.created_at);
    for seen in seen {
        let (is_accepted, limit) = match seen.part {
            // A client waits for it.
            "ahead" => (false, Duration::from_secs(1)),
            // That of the harness; the step's own is not the undo's.
            "undo" => (true, Duration::from_secs(2)),
            _ => (true, Duration::from_secs(30)),
        };
        let left = seen.time_left;
        assert!(!left.is_zero() && left <= limit, "{seen:?}");
        let expected = Seen {
            part: seen.part,
            tenant: "acme".to_owned(),
            task_type: "Look".to_owned(),
            submitted_at: is_accepted.then_some(submitted),
            task_deadline: is_accepted.then_some(submitted + Duration::from_secs(600)),
            time_left: left,
            client_key: Some("order-4711".to_owned()),
            order: Some("4711".to_owned()),
            traceparent: Some(TRACE.to_owned()),
            trace_id: Some("0af7651916cd43dd8448eb211c80319c".to_owned()),
        };
        assert_eq!(seen, expected);
    }
}

#[tokio::test]
async fn a_submission_without_key_and_trace_has_none() {
    let book = Notebook::default();
    let harness = Harness::embedded(program()).provide(book.clone());
    let task = harness.submit(Form::new()).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    for seen in book.seen() {
        assert_eq!(seen.tenant, "default");
        assert_eq!(
            (seen.client_key, seen.traceparent, seen.trace_id),
            (None, None, None)
        );
    }
}
