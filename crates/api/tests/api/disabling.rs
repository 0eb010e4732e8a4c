//! Task types that take no submissions: after consecutive failures, by hand, and how they take them
//! again.

#[path = "disabling/by_hand.rs"]
mod by_hand;
#[path = "disabling/scheduled.rs"]
mod scheduled;

use crate::reply::Reply;
use crate::site::{Site, eventually};
use counterstep_contracts::TaskStatus;
use counterstep_contracts::disable::SwitchView;
use counterstep_contracts::http::{Accepted, Page, TaskView};
use counterstep_kernel::admission::disable;
use counterstep_kernel::admission::disable::TypeVerdict;
use counterstep_macros::distributed_task;
use counterstep_steps::{
    AutoDisable, Registry, StepContext, StepError, StepResult, UndoResult, UploadMany, UploadedFile,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Fate {
    Works,
    Fails,
    /// It is the client's fault.
    Refuses,
    Hangs,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Ask {
    fate: Fate,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Done;

async fn meet(ctx: &StepContext, fate: Fate) -> StepResult<Done> {
    match fate {
        Fate::Works => Ok(Done),
        Fate::Fails => Err(StepError::transient("it was asked to")),
        Fate::Refuses => Err(StepError::permanent("no such thing can be made")),
        Fate::Hangs => {
            ctx.cancel().cancelled().await;
            Err(StepError::cancelled())
        }
    }
}

/// Longer than any test.
pub(crate) const FOR_LONG: AutoDisable = AutoDisable::after_failures(2).within("1h").cooldown("1h");
/// Shorter than a test's patience.
pub(crate) const SHORTLY: AutoDisable = AutoDisable::after_failures(2)
    .within("1h")
    .cooldown("500ms");

pub(crate) struct Strict;

#[distributed_task(name = "Strict", queue = "strict", cancellable, auto_disable = FOR_LONG)]
impl Strict {
    type Request = Ask;
    type Response = Done;

    #[step(1, host = "worker", undo = take_back)]
    async fn make(ctx: &StepContext, req: &Ask) -> StepResult<Done> {
        meet(ctx, req.fate).await
    }

    async fn take_back() -> UndoResult {
        Ok(())
    }

    fn respond() -> Done {
        Done
    }
}

pub(crate) const FOR_GOOD: AutoDisable =
    AutoDisable::after_failures(2).within("1h").until_enabled();

pub(crate) struct Guarded;

#[distributed_task(name = "Guarded", queue = "guarded", auto_disable = FOR_GOOD)]
impl Guarded {
    type Request = Ask;
    type Response = Done;

    #[step(1, host = "worker", no_undo = "it does nothing")]
    async fn make(ctx: &StepContext, req: &Ask) -> StepResult<Done> {
        meet(ctx, req.fate).await
    }

    fn respond() -> Done {
        Done
    }
}

pub(crate) struct Lenient;

#[distributed_task(name = "Lenient", queue = "lenient", cancellable, auto_disable = SHORTLY)]
impl Lenient {
    type Request = Ask;
    type Response = Done;

    #[step(1, host = "worker", no_undo = "it does nothing")]
    async fn make(ctx: &StepContext, req: &Ask) -> StepResult<Done> {
        meet(ctx, req.fate).await
    }

    fn respond() -> Done {
        Done
    }
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Filed {
    files: Vec<UploadedFile>,
}

pub(crate) struct Shelf;

#[distributed_task(name = "Shelf", queue = "shelf")]
impl Shelf {
    type Request = Filed;
    type Response = Done;

    #[step(1, host = "api")]
    fn keep(req: &Filed) -> UploadMany {
        UploadMany::to("shelf", &req.files)
    }

    fn respond() -> Done {
        Done
    }
}

pub(crate) fn types(registry: Registry) -> Registry {
    registry
        .with::<Strict>()
        .with::<Guarded>()
        .with::<Lenient>()
        .with::<Shelf>()
}

async fn ask(site: &Site, route: &str, fate: &str) -> Reply {
    site.post(
        &format!("/api/tasks/{route}"),
        format!(r#"{{"fate":"{fate}"}}"#),
    )
    .await
}

async fn ends(site: &Site, route: &str, fate: &str, status: TaskStatus) -> TaskView {
    let accepted: Accepted = ask(site, route, fate).await.json(202);
    site.until(accepted.task_id, status).await
}

async fn switch(site: &Site, route: &str, what: &str) -> Reply {
    site.post(
        &format!("/api/task-types/{route}/{what}"),
        r#"{"note":"a test says so","actor":"ada"}"#,
    )
    .await
}

async fn shown(site: &Site, name: &str) -> SwitchView {
    let page: Page<Value> = site.get("/api/task-types").await.json(200);
    let item = page
        .items
        .into_iter()
        .find(|item| item["name"] == name)
        .expect("the type is listed");
    serde_json::from_value(item["switch"].clone()).expect("a switch")
}

/// Two failures, and what follows from them.
pub(crate) async fn disable_by_failures(site: &Site, route: &str) {
    for _ in 0..2 {
        ends(site, route, "fails", TaskStatus::Failed).await;
    }
    // The count comes after the task's own end, which a client may see before.
    eventually("the type is disabled", || async {
        let name = route[..1].to_uppercase() + &route[1..];
        let view = shown(site, &name).await;
        if view.disabled_since.is_some() {
            Ok(())
        } else {
            Err(format!("{view:?}"))
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_in_a_row_disable_a_type_and_nothing_else() {
    let site = Site::start().await;
    site.run_worker();
    let hanging: Accepted = ask(&site, "strict", "hangs").await.json(202);
    site.until(hanging.task_id, TaskStatus::Running).await;
    // A task that completes begins a new row.
    ends(&site, "strict", "fails", TaskStatus::Failed).await;
    ends(&site, "strict", "works", TaskStatus::Completed).await;
    let first = site
        .request("POST", "/api/tasks/strict")
        .header("content-type", "application/json")
        .header("idempotency-key", "before")
        .body(r#"{"fate":"works"}"#);
    let before: Accepted = site
        .send(first.try_clone().expect("a copy"))
        .await
        .json(202);
    site.until(before.task_id, TaskStatus::Completed).await;
    disable_by_failures(&site, "strict").await;

    let refused = ask(&site, "strict", "works").await;
    let problem = refused.problem(409, "type-disabled");
    let detail = problem["detail"].as_str().expect("a detail");
    assert!(
        detail.contains("2 or more tasks in a row failed within 1h"),
        "{detail}"
    );
    let seconds: u32 = refused
        .header("retry-after")
        .expect("a time")
        .parse()
        .expect("seconds");
    assert!((1..=3600).contains(&seconds), "{seconds}");
    // What was accepted before keeps its answer, goes on, and is undone where it must be.
    let again: Accepted = site.send(first).await.json(202);
    assert_eq!(again.task_id, before.task_id);
    assert_eq!(
        site.send(site.request("DELETE", &format!("/api/tasks/{}", hanging.task_id)))
            .await
            .status,
        202
    );
    let undone = site.until(hanging.task_id, TaskStatus::Cancelled).await;
    assert_eq!(
        undone.steps[0].status,
        counterstep_contracts::StepStatus::Compensated
    );
    // The others are not concerned.
    ends(&site, "lenient", "works", TaskStatus::Completed).await;
    assert_eq!(shown(&site, "Lenient").await.disabled_since, None);

    let enabled: SwitchView = switch(&site, "strict", "enable").await.json(200);
    assert_eq!(
        (enabled.disabled_since, enabled.by.as_deref()),
        (None, Some("operator (ada)"))
    );
    // Failures from before do not count again: a single one changes nothing.
    ends(&site, "strict", "fails", TaskStatus::Failed).await;
    assert_eq!(
        disable::plan_types(&site.engine).await.expect("a plan"),
        [],
        "one failure is none in a row"
    );
    ends(&site, "strict", "works", TaskStatus::Completed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_of_a_client_neither_disables_a_type_nor_keeps_it_disabled() {
    let site = Site::start().await;
    site.run_worker();
    for _ in 0..4 {
        ends(&site, "lenient", "refuses", TaskStatus::Failed).await;
    }
    assert_eq!(disable::plan_types(&site.engine).await.expect("a plan"), []);
    disable_by_failures(&site, "lenient").await;
    // As the probe, too: the next submission is another one, without another cooldown.
    for fate in ["refuses", "works"] {
        let probe: Accepted = eventually("a probe is taken", || async {
            let reply = ask(&site, "lenient", fate).await;
            if reply.status == 202 {
                Ok(reply.json(202))
            } else {
                Err(reply.status.to_string())
            }
        })
        .await;
        let expected = if fate == "works" {
            TaskStatus::Completed
        } else {
            TaskStatus::Failed
        };
        site.until(probe.task_id, expected).await;
        let plan = disable::plan_types(&site.engine).await.expect("a plan");
        let verdicts: Vec<_> = plan.iter().map(|step| step.verdict).collect();
        assert_eq!(
            verdicts,
            [if fate == "works" {
                TypeVerdict::Enabled
            } else {
                TypeVerdict::ProbeGone
            }]
        );
        disable::run_types(&site.engine, plan).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_cooldown_one_probe_decides() {
    let site = Site::start().await;
    site.run_worker();
    disable_by_failures(&site, "lenient").await;
    let probe = |fate: &'static str| {
        let site = &site;
        site.clock.advance("500ms");
        eventually("a probe is taken", move || async move {
            let reply = ask(site, "lenient", fate).await;
            if reply.status == 202 {
                Ok(reply.json::<Accepted>(202).task_id)
            } else {
                Err(reply.status.to_string())
            }
        })
    };

    // One that fails: another cooldown.
    let failed = probe("fails").await;
    site.until(failed, TaskStatus::Failed).await;
    let plan = disable::plan_types(&site.engine).await.expect("a plan");
    assert_eq!(
        plan.iter().map(|step| step.verdict).collect::<Vec<_>>(),
        [TypeVerdict::StaysDisabled]
    );
    let report = disable::run_types(&site.engine, plan).await;
    assert_eq!(
        (report.disabled, report.enabled, report.failed.len()),
        (1, 0, 0)
    );

    // While one is under way, no other is taken; one that is cancelled says nothing.
    let hanging = probe("hangs").await;
    site.until(hanging, TaskStatus::Running).await;
    let refused = ask(&site, "lenient", "works").await;
    let problem = refused.problem(409, "type-disabled");
    assert!(
        problem["detail"]
            .as_str()
            .expect("a detail")
            .contains("a probe is under way"),
        "{problem}"
    );
    assert_eq!(shown(&site, "Lenient").await.probe, Some(hanging));
    assert_eq!(
        site.send(site.request("DELETE", &format!("/api/tasks/{hanging}")))
            .await
            .status,
        202
    );
    site.until(hanging, TaskStatus::Cancelled).await;

    // One that is no request is none.
    site.post("/api/tasks/lenient", r#"{"fate":"unknown"}"#)
        .await
        .problem(422, "invalid-request");
    assert_eq!(shown(&site, "Lenient").await.probe, None);

    // One that completes: the next submission finds out.
    let completed = probe("works").await;
    site.until(completed, TaskStatus::Completed).await;
    ends(&site, "lenient", "works", TaskStatus::Completed).await;
    let view = shown(&site, "Lenient").await;
    assert_eq!(view.disabled_since, None);
    assert!(
        view.reason
            .expect("a reason")
            .contains("its probe completed")
    );
    assert_eq!(disable::plan_types(&site.engine).await.expect("a plan"), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_that_nobody_counted_the_reconciler_counts() {
    let site = Site::start().await;
    site.run_worker();
    disable_by_failures(&site, "strict").await;
    // As if the process had ended between the failure and the count.
    let mut row = site
        .engine
        .ports
        .store
        .types()
        .await
        .expect("rows")
        .rows
        .pop()
        .expect("a row");
    (row.disabled, row.rev) = (None, row.rev.next());
    assert!(
        site.engine
            .ports
            .store
            .put_type(&row)
            .await
            .expect("written")
    );
    let plan = disable::plan_types(&site.engine).await.expect("a plan");
    assert_eq!(
        plan.iter().map(|step| step.verdict).collect::<Vec<_>>(),
        [TypeVerdict::Disabled]
    );
    assert_eq!(
        disable::run_types(&site.engine, plan.clone())
            .await
            .disabled,
        1
    );
    // Another reconciler with the same plan was too late.
    assert_eq!(disable::run_types(&site.engine, plan).await.disabled, 0);
    ask(&site, "strict", "works")
        .await
        .problem(409, "type-disabled");
}
