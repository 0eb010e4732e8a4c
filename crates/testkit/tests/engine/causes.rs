//! The cause of a parked task: what blocks it now, as data from the call that failed to the group.

use crate::errand::{SLOW, only};
use counterstep_contracts::bulk::{BulkAction, BulkPreview, UndoneStep};
use counterstep_contracts::cause::CauseSide;
use counterstep_contracts::{Direction, TaskStatus, Tenant};
use counterstep_kernel::Engine;
use counterstep_kernel::bulk::{self, BulkError, BulkSpec};
use counterstep_kernel::client;
use counterstep_kernel::dead_letters::{Selection, group_of, groups};
use counterstep_kernel::operator::{self, Retrial};
use counterstep_kernel::ports::{FailureFilter, ServiceAnswer, ServiceError, ServiceRequest};
use counterstep_macros::distributed_task;
use counterstep_steps::{HttpCall, StepContext, StepError, StepResult};
use counterstep_testkit::{Form, Harness};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct OrderRequest {
    account: String,
    /// With which status refunds are refused.
    refused: u16,
    /// It cannot be shipped yet.
    waits: bool,
}

struct Order;

#[distributed_task(name = "Order", queue = "orders", cancellable)]
impl Order {
    type Request = OrderRequest;
    type Response = u32;

    #[step(1, host = "worker", undo = refund)]
    fn charge(req: &OrderRequest) -> HttpCall<()> {
        HttpCall::post("bank", "/charges").segment(&req.account)
    }

    fn refund(req: &OrderRequest) -> HttpCall<()> {
        HttpCall::post("bank", "/refunds")
            .segment(req.refused)
            .segment(&req.account)
    }

    #[step(2, host = "worker", retry = SLOW, no_undo = "what was not shipped stays")]
    async fn ship(ctx: &StepContext, req: &OrderRequest) -> StepResult<u32> {
        if req.waits {
            return Err(StepError::transient("no carrier yet"));
        }
        Err(StepError::permanent(format_args!(
            "{} is out of stock for {}",
            req.account,
            ctx.task_id()
        )))
    }

    fn respond(ship: &u32) -> u32 {
        *ship
    }
}

/// Takes charges, and refuses refunds with the status that their path names, until it is told not to.
fn bank(
    refuses: &Arc<AtomicBool>,
) -> impl Fn(&ServiceRequest) -> Result<ServiceAnswer, ServiceError> + Send + Sync + 'static {
    let refuses = refuses.clone();
    move |request| {
        let mut parts = request.path.split('/').skip(1);
        let refund = parts.next() == Some("refunds") && refuses.load(Ordering::SeqCst);
        let status = parts.next().and_then(|part| part.parse().ok());
        let Some(status) = status.filter(|_| refund) else {
            return Ok(ServiceAnswer::json(200, &json!(null)));
        };
        let body = json!({"type": "about:blank", "code": "frozen", "detail": request.path});
        Ok(ServiceAnswer::json(status, &body))
    }
}

fn parked() -> Selection {
    Selection {
        tenant: Tenant::default(),
        task_type: None,
        statuses: vec![TaskStatus::CompensationFailed, TaskStatus::DeadLettered],
        labels: counterstep_contracts::Labels::new(),
        failure: FailureFilter::default(),
        group: None,
        since: None,
        until: None,
    }
}

fn order(account: &str, refused: u16) -> Form {
    Form::new()
        .field("account", account)
        .field("refused", refused)
}

pub(crate) async fn preview(
    engine: &Engine,
    action: BulkAction,
    selection: Selection,
) -> Result<BulkPreview, BulkError> {
    let spec = BulkSpec {
        action,
        settled: None,
        patch: None,
        from: None,
        pace: None,
        selection,
        note: "the bank is back".to_owned(),
        actor: "operator:kim".to_owned(),
    };
    bulk::preview(engine, &spec).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undo_that_is_refused_is_the_cause_whatever_has_turned_the_task() {
    let refuses = Arc::new(AtomicBool::new(true));
    let harness = Harness::embedded(only::<Order>()).service("bank", bank(&refuses));
    let mut site = harness.start().await;
    site.serve(4);
    let mut tasks = Vec::new();
    for (account, refused) in [("kim", 403), ("sam", 403), ("eve", 400)] {
        tasks.push(site.submit(order(account, refused)).await);
    }
    let records = site.all_are(TaskStatus::CompensationFailed, &tasks).await;
    site.stop().await;

    let failure = records[0].task.failure.as_ref().expect("a failure");
    assert_eq!(failure.step.as_deref(), Some("ship"), "why it was undone");
    assert_eq!(failure.cause().side, CauseSide::Forward);
    let cause = failure.blocking().cause();
    assert_eq!(
        cause.to_string(),
        "undo of charge: permanent, POST bank 403 frozen"
    );

    let engine = &site.engine;
    let found = groups(&engine.ports.store, &parked())
        .await
        .expect("groups");
    let counts: Vec<_> = found
        .groups
        .iter()
        .map(|it| (it.cause.origin.status, it.count))
        .collect();
    assert_eq!(counts, [(Some(403), 2), (Some(400), 1)], "{found:?}");
    let group = &found.groups[0];
    assert_eq!((&group.cause, group.text.as_str()), (&cause, ""));
    assert_eq!(group.id, group_of("Order", Some(failure)));

    let selection = Selection {
        group: Some(group.id.clone()),
        ..parked()
    };
    let redrive = preview(engine, BulkAction::Redrive, selection.clone()).await;
    let redrive = redrive.expect("a preview");
    assert_eq!((redrive.count, redrive.causes.len()), (2, 1));
    assert_eq!(redrive.causes[0], *group);
    let undo = redrive.undo.expect("what would be undone");
    let charge = UndoneStep {
        task_type: "Order".to_owned(),
        step: "charge".to_owned(),
        undo: "refund".to_owned(),
        tasks: 2,
        in_doubt: 0,
        gave_up: 2,
        amounts: Vec::new(),
    };
    assert_eq!((undo.tasks, undo.steps), (2, vec![charge]));
    assert_eq!((undo.gave_up, undo.in_doubt, undo.unknown), (2, 0, 0));
    let resolve = preview(engine, BulkAction::Resolve, selection).await;
    assert_eq!(resolve.expect("a preview").undo, None);
    let of_class = |class: &str| Selection {
        failure: FailureFilter {
            class: Some(class.to_owned()),
            text: Some("/refunds/400".to_owned()),
        },
        ..parked()
    };
    let found = preview(engine, BulkAction::Redrive, of_class("permanent")).await;
    assert_eq!(found.expect("a preview").count, 1, "its text is looked for");
    site.assert_invariants(&tasks).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_cancel_the_undo_that_gave_up_is_the_cause_until_it_is_tried_again() {
    let refuses = Arc::new(AtomicBool::new(true));
    let harness = Harness::embedded(only::<Order>()).service("bank", bank(&refuses));
    let task = harness.submit(order("kim", 418).field("waits", true)).await;
    task.run_to_wait().await;
    client::cancel(&task.engine, task.id, "client")
        .await
        .expect("accepted");
    assert_eq!(task.run_to_rest().await, TaskStatus::CompensationFailed);
    let record = task.record().await;
    let failure = record.task.failure.as_ref().expect("a failure");
    assert_eq!(
        (failure.class.as_str(), &failure.step),
        ("cancelled", &None)
    );
    let why = operator::why(&task.engine.registry, &record);
    let cause = why.cause.expect("a cause");
    assert_eq!(
        cause.to_string(),
        "undo of charge: permanent, POST bank 418 frozen"
    );
    // The journal has it too.
    let history = task.history().await;
    let last = history.attempts.last().expect("an attempt");
    assert_eq!(last.direction, Direction::Undo);
    let error = last.error.as_ref().expect("an error");
    assert_eq!(error.origin.as_deref(), Some(&cause.origin));

    refuses.store(false, Ordering::SeqCst);
    let retrial = Retrial {
        direction: None,
        edit: None,
        actor: "operator:kim".to_owned(),
        note: "the account is open".to_owned(),
        bulk: None,
    };
    operator::retry(&task.engine, task.id, retrial)
        .await
        .expect("accepted");
    assert_eq!(task.record().await.task.failure, None, "nothing blocks it");
    assert_eq!(task.run_to_rest().await, TaskStatus::Cancelled);
    task.assert_invariants().await;
}
