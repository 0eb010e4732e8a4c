//! What a preview of a decision on many tasks says of each step, with the amounts that types declare.

use crate::causes::preview;
use crate::errand::only;
use counterstep_contracts::bulk::{Amount, BulkAction, BulkUndo};
use counterstep_contracts::{TaskId, TaskStatus, Tenant};
use counterstep_kernel::dead_letters::Selection;
use counterstep_macros::distributed_task;
use counterstep_steps::schemars::{self, JsonSchema};
use counterstep_steps::{AwaitSignal, StepContext, StepError, StepResult, UndoResult};
use counterstep_testkit::{Form, Harness, Site};
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
struct InvoiceRequest {
    #[schemars(extend("x-amount" = {"minor": 2, "currency": "EUR"}))]
    cents: u64,
    /// For a person's word, in place of parking.
    waits: bool,
    /// It is paid in parts, and this is what is paid of it.
    part: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
struct Paid {
    #[schemars(extend("x-amount" = {"minor": 2, "currency_field": "currency"}))]
    cents: u64,
    currency: String,
}

struct Invoice;

#[distributed_task(name = "Invoice", queue = "orders", cancellable)]
impl Invoice {
    type Request = InvoiceRequest;
    type Response = ();

    #[step(1, host = "worker", when = is_paid, undo = refund)]
    async fn pay(req: &InvoiceRequest) -> StepResult<Paid> {
        Ok(Paid {
            cents: req.part,
            currency: "CHF".to_owned(),
        })
    }

    fn is_paid(req: &InvoiceRequest) -> bool {
        req.part > 0
    }

    async fn refund(_ctx: &StepContext) -> UndoResult {
        Ok(())
    }

    #[step(2, host = "worker", when = is_waited_for)]
    fn approval(_req: &InvoiceRequest) -> AwaitSignal<bool> {
        AwaitSignal::within_duration(Duration::from_secs(60))
    }

    fn is_waited_for(req: &InvoiceRequest) -> bool {
        req.waits
    }

    #[step(3, host = "worker", on_exhausted = "dead_letter")]
    #[pure]
    async fn send(req: &InvoiceRequest) -> StepResult<()> {
        Err(StepError::permanent(format_args!(
            "{} has no address",
            req.cents
        )))
    }

    fn respond() {}
}

async fn what_if(site: &Site, action: BulkAction, status: TaskStatus) -> BulkUndo {
    let found = preview(
        &site.engine,
        action,
        Selection::of(Tenant::default(), vec![status]),
    )
    .await;
    found
        .expect("a preview")
        .undo
        .expect("what would become of them")
}

fn shown(all: &[Amount]) -> Vec<String> {
    let all = all.iter().map(|it| format!("{} {}", it.sum, it.currency));
    all.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preview_says_by_step_what_is_undone_or_goes_on_with_its_amounts() {
    let mut site = Harness::embedded(only::<Invoice>()).start().await;
    site.serve(4);
    let submitted = async |waits: bool, parts: &[u64]| -> Vec<TaskId> {
        let mut tasks = Vec::new();
        for part in parts {
            let form = Form::new().field("cents", 1_050).field("waits", waits);
            tasks.push(site.submit(form.field("part", *part)).await);
        }
        tasks
    };
    let waiting = submitted(true, &[700, 305, 0]).await;
    let parked = submitted(false, &[1, 2]).await;
    site.all_are(TaskStatus::Waiting, &waiting).await;
    site.all_are(TaskStatus::DeadLettered, &parked).await;
    site.stop().await;

    let cancel = what_if(&site, BulkAction::Cancel, TaskStatus::Waiting).await;
    assert_eq!((cancel.tasks, cancel.unknown, cancel.in_doubt), (3, 0, 0));
    assert_eq!(shown(&cancel.amounts), ["31.50 EUR"]);
    let [pay] = &cancel.steps[..] else {
        panic!("{:?}", cancel.steps)
    };
    assert_eq!((&*pay.step, &*pay.undo, pay.tasks), ("pay", "refund", 2));
    assert_eq!(shown(&pay.amounts), ["10.05 CHF"]);
    // One that was not paid has nothing to be taken back.
    let [odd] = &cancel.unusual[..] else {
        panic!("{:?}", cancel.unusual)
    };
    assert_eq!(
        (odd.task_id, &*odd.differs),
        (waiting[2], "not: undoes `pay`")
    );

    let redrive = what_if(&site, BulkAction::Redrive, TaskStatus::DeadLettered).await;
    let [send] = &redrive.goes_on[..] else {
        panic!("{:?}", redrive.goes_on)
    };
    assert_eq!((&*send.step, send.tasks, send.in_doubt), ("send", 2, 0));
    assert_eq!((redrive.steps, redrive.unusual), (vec![], vec![]));
    assert_eq!(shown(&redrive.amounts), ["21.00 EUR"]);
}
