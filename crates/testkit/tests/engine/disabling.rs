//! Failures that disable a task type: whose are counted, and by whom.

use crate::errand::only;
use counterstep_contracts::{Labels, TaskId, TaskStatus, Tenant};
use counterstep_kernel::admission::disable::{self, TypeVerdict};
use counterstep_kernel::client::{Submission, UploadSession};
use counterstep_macros::distributed_task;
use counterstep_steps::{AutoDisable, RetryPolicy, StepError, StepResult};
use counterstep_testkit::Harness;
use counterstep_testkit::many_tasks::{Site, eventually};
use serde_json::json;
use std::time::Duration;

const AFTER_TWO: AutoDisable = AutoDisable::after_failures(2).within("1h").cooldown("1h");

struct Broken;

#[distributed_task(name = "Broken", queue = "broken", auto_disable = AFTER_TWO)]
impl Broken {
    type Request = serde_json::Value;
    type Response = ();

    #[step(1, host = "worker", retry = RetryPolicy::NONE, no_undo = "does nothing")]
    async fn fail() -> StepResult<u32> {
        Err(StepError::transient("it never works"))
    }

    fn respond() {}
}

async fn submit(site: &Site, tenant: &str) -> TaskId {
    let task_type = site.engine.registry.get("Broken", 1).expect("the type");
    let submission = Submission {
        tenant: Tenant(tenant.to_owned()),
        actor: "client".to_owned(),
        key: None,
        traceparent: None,
        webhook: None,
        labels: Labels::new(),
    };
    let session = UploadSession::begin(&site.engine, task_type, submission).await;
    let mut session = session.expect("the session begins");
    session.body(json!({})).expect("the body is accepted");
    session
        .submit()
        .await
        .expect("it is accepted")
        .answer
        .task_id
}

#[tokio::test]
async fn failures_of_another_tenant_that_nobody_counted_the_reconciler_counts() {
    let mut site = Harness::embedded(only::<Broken>()).start().await;
    site.serve(4);
    let mut tasks = Vec::new();
    for _ in 0..2 {
        tasks.push(submit(&site, "acme").await);
    }
    site.all_are(TaskStatus::Failed, &tasks).await;
    let store = site.engine.ports.store.clone();
    let row = || async {
        let rows = store.types().await.expect("rows").rows;
        rows.into_iter().find(|row| row.disabled.is_some())
    };
    let mut counted = eventually("it is disabled", row).await;
    // As if the process had ended between the failure and the count.
    (counted.disabled, counted.rev) = (None, counted.rev.next());
    assert!(store.put_type(&counted).await.expect("written"));

    let plan = disable::plan_types(&site.engine).await.expect("a plan");
    let verdicts: Vec<_> = plan.iter().map(|step| step.verdict).collect();
    assert_eq!(verdicts, [TypeVerdict::Disabled]);
    let report = disable::run_types(&site.engine, plan.clone()).await;
    assert_eq!((report.disabled, report.failed.len()), (1, 0));
    assert_eq!(disable::run_types(&site.engine, plan).await.disabled, 0);

    // Those of two tenants are not added up, and old ones count no more.
    let mut row = row().await.expect("it is disabled");
    (row.disabled, row.counts_from, row.rev) = (None, None, row.rev.next());
    assert!(store.put_type(&row).await.expect("written"));
    site.clock.advance_by(Duration::from_secs(3600));
    for tenant in ["a", "b"] {
        tasks.push(submit(&site, tenant).await);
    }
    site.all_are(TaskStatus::Failed, &tasks).await;
    assert_eq!(disable::plan_types(&site.engine).await.expect("a plan"), []);
    site.stop().await;
}
