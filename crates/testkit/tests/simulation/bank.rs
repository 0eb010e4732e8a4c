//! A transfer at a bank that keeps its keys, with a receipt in the object store.

use counterstep_contracts::TaskStatus;
use counterstep_kernel::ports::{Method, ServiceAnswer, ServiceRequest};
use counterstep_kernel::record::TaskRecord;
use counterstep_macros::distributed_task;
use counterstep_steps::{
    Classify, FileName, HttpCall, RetryPolicy, StepContext, StepError, StepResult, StoredFile,
    StoredFiles, UndoResult, UploadMany, UploadedFile,
};
use counterstep_testkit::simulation::Ledger;
use futures::StreamExt;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    cents: u64,
    /// The step that fails for good; 0: none.
    fails_at: u64,
    #[serde(default)]
    receipt: Vec<UploadedFile>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Withdrawn {
    receipt: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Deposited {
    receipt: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Looked {
    is_fine: bool,
}

const PATIENT: RetryPolicy = RetryPolicy::exponential("200ms").max_retries(6).cap("5s");

pub(crate) struct Transfer;

#[distributed_task(
    name = "Transfer",
    queue = "transfers",
    max_recoveries = 8,
    cancellable
)]
impl Transfer {
    type Request = Order;
    type Response = String;

    #[step(1, host = "api")]
    fn keep(order: &Order) -> UploadMany {
        UploadMany::to("receipts", &order.receipt)
    }

    #[step(2, host = "worker", retry = PATIENT, undo = refund)]
    fn withdraw(order: &Order, _kept: &StoredFiles) -> HttpCall<Withdrawn> {
        HttpCall::post("bank", "/withdrawals").json(&json!({
            "cents": order.cents,
            "refused": order.fails_at == 2,
        }))
    }

    fn refund(ctx: &StepContext) -> HttpCall<()> {
        HttpCall::delete("bank", "/withdrawals").segment(ctx.step_key())
    }

    #[step(3, host = "worker", retry = PATIENT, undo = look_again)]
    async fn look(ctx: &StepContext, order: &Order, _paid: &Withdrawn) -> StepResult<Looked> {
        tokio::time::sleep(std::time::Duration::from_millis(order.cents * 4)).await;
        if ctx.cancel().is_cancelled() {
            return Err(StepError::cancelled());
        }
        if order.fails_at == 3 {
            return Err(StepError::permanent("told to fail"));
        }
        Ok(Looked { is_fine: true })
    }

    async fn look_again(_ctx: &StepContext, _out: Option<Looked>) -> UndoResult {
        Ok(())
    }

    #[step(4, host = "worker", retry = PATIENT, undo = shred)]
    async fn print(ctx: &StepContext, order: &Order, _looked: &Looked) -> StepResult<StoredFile> {
        let name = FileName::parse("note.txt").permanent("a name")?;
        let note = format!("{} cents", order.cents);
        let body = futures::stream::once(async { Ok(note.into()) }).boxed();
        ctx.objects().put("notes", &name, "text/plain", body).await
    }

    async fn shred(ctx: &StepContext, _out: Option<StoredFile>) -> UndoResult {
        ctx.objects().delete_all_of_step().await.map(drop)
    }

    #[step(5, host = "worker", retry = PATIENT, undo = take_back)]
    fn deposit(order: &Order, _printed: &StoredFile) -> HttpCall<Deposited> {
        HttpCall::post("bank", "/deposits").json(&json!({
            "cents": order.cents,
            "refused": order.fails_at == 5,
        }))
    }

    fn take_back(ctx: &StepContext) -> HttpCall<()> {
        HttpCall::delete("bank", "/deposits").segment(ctx.step_key())
    }

    fn respond(paid: &Withdrawn, deposited: &Deposited) -> String {
        format!("{} {}", paid.receipt, deposited.receipt)
    }
}

/// A bank that keeps its keys, and refuses what is to be refused.
pub(crate) fn answer(ledger: &Ledger, request: &ServiceRequest) -> ServiceAnswer {
    let body = request.body.as_deref().unwrap_or_default();
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    if request.method != Method::Delete && body["refused"] == true {
        return ServiceAnswer::json(422, &json!({ "detail": "refused" }));
    }
    ledger.answer(request)
}

/// 16: of a completed task all bookings stand, and of one that was undone none.
pub(crate) fn account(record: &TaskRecord, ledger: &Ledger) -> Result<(), String> {
    let (task, status) = (record.task.id, record.task.status);
    let stand = ledger.standing(task);
    let expected = match status {
        TaskStatus::Completed => match record.task.task_type.as_str() {
            "Transfer" | "Claim" => 2,
            "Watch" => 0,
            _ => 1,
        },
        TaskStatus::Failed | TaskStatus::Cancelled if !record.task.residue => 0,
        _ => return Ok(()),
    };
    match stand == expected {
        true => Ok(()),
        false => Err(format!(
            "16: task {task} is {status}, and {stand} of its bookings stand: {:?}",
            ledger.of(task)
        )),
    }
}
