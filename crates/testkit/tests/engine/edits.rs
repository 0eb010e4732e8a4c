//! A dead letter that is redriven with another request: what was done keeps what it was told to do, what
//! follows is given the other one.

use crate::errand::only;
use counterstep_contracts::{Direction, Settled, SettledAs, TaskStatus};
use counterstep_kernel::client;
use counterstep_kernel::client::request_edit::{EditError, RequestEdit};
use counterstep_kernel::engine::faults::{Fault, FaultKind};
use counterstep_kernel::operator::{self, OperatorError, Resolution, Retrial};
use counterstep_kernel::record::AuditEntry;
use counterstep_macros::distributed_task;
use counterstep_steps::{
    AwaitSignal, Classify, DistributedTask, RetryPolicy, ScratchFile, State, StepContext,
    StepError, StepResult, UndoResult,
};
use counterstep_testkit::{Form, Harness, TestTask};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::{Arc, Mutex};

const AT_ONCE: RetryPolicy = RetryPolicy::constant("10ms").max_retries(1);

/// What the steps have seen, in order.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    fn note(&self, what: &str, account: &str) {
        let mut seen = self.0.lock().expect("a list");
        seen.push(format!("{what} {account}"));
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().expect("a list").clone()
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Transfer {
    account: String,
    #[serde(default)]
    bounces: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Reserved(u32);

#[derive(Debug, Serialize, Deserialize)]
struct Paid(u32);

struct MoveMoney;

#[distributed_task(name = "MoveMoney", queue = "money", cancellable)]
impl MoveMoney {
    type Request = Transfer;
    type Response = String;

    #[step(1, host = "worker", undo = release)]
    async fn reserve(req: &Transfer, seen: &State<Seen>) -> StepResult<Reserved> {
        seen.note("reserve", &req.account);
        Ok(Reserved(1))
    }

    async fn release(req: &Transfer, seen: &State<Seen>) -> UndoResult {
        seen.note("release", &req.account);
        Ok(())
    }

    #[step(2, host = "worker", undo = refund, on_exhausted = "dead_letter")]
    async fn pay(req: &Transfer, seen: &State<Seen>) -> StepResult<Paid> {
        seen.note("pay", &req.account);
        if req.account == "closed" {
            return Err(StepError::permanent("the account is closed"));
        }
        Ok(Paid(2))
    }

    async fn refund(req: &Transfer, seen: &State<Seen>) -> UndoResult {
        seen.note("refund", &req.account);
        Ok(())
    }

    #[step(3, host = "worker", no_undo = "tells a person")]
    async fn confirm(req: &Transfer) -> StepResult<()> {
        if req.bounces {
            return Err(StepError::permanent("the letter came back"));
        }
        Ok(())
    }

    fn respond(req: &Transfer, _paid: &Paid) -> String {
        req.account.clone()
    }
}

async fn dead_letter(seen: &Seen) -> TestTask {
    let harness = Harness::embedded(only::<MoveMoney>()).provide(seen.clone());
    let task = harness.submit(Form::new().field("account", "closed")).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::DeadLettered);
    task
}

fn retrial(direction: Option<Direction>, edit: RequestEdit) -> Retrial {
    Retrial {
        direction,
        edit: Some(edit),
        actor: "operator:kim".to_owned(),
        note: "the client has another account".to_owned(),
        bulk: None,
    }
}

async fn last(task: &TestTask, event: &str) -> AuditEntry {
    let history = task.history().await;
    let mut rows = history.audit.into_iter().rev();
    let found = rows.find(|row| row.entry.event == event);
    found.unwrap_or_else(|| panic!("no {event}")).entry
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redriven_task_goes_on_with_another_request() {
    let seen = Seen::default();
    let task = dead_letter(&seen).await;
    let edit = RequestEdit::Patch(json!({"account": "open"}));
    let answer = operator::retry(&task.engine, task.id, retrial(None, edit)).await;
    assert_eq!(answer.expect("accepted").status, TaskStatus::Dispatched);
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    assert_eq!(seen.all(), ["reserve closed", "pay closed", "pay open"]);
    let record = task.record().await;
    assert_eq!(record.task.response, Some(json!("open")));
    assert_eq!(
        record.task.earlier_requests,
        [json!({"account": "closed", "bounces": false})]
    );
    let entry = last(&task, "operator_redrove").await;
    assert_eq!(entry.actor, "operator:kim");
    assert_eq!(entry.details["request_changed"], true);
    assert_eq!(entry.details["note"], "the client has another account");
    task.assert_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_step_is_undone_by_the_request_that_it_was_given() {
    let seen = Seen::default();
    let task = dead_letter(&seen).await;
    let other = json!({"account": "open", "bounces": true});
    let edit = RequestEdit::Whole(other);
    operator::retry(&task.engine, task.id, retrial(None, edit))
        .await
        .expect("accepted");
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    assert_eq!(
        seen.all(),
        [
            "reserve closed",
            "pay closed",
            "pay open",
            "refund open",
            "release closed"
        ]
    );
    task.assert_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_not_started_again_is_undone_by_the_request_of_its_last_try() {
    let seen = Seen::default();
    let task = dead_letter(&seen).await;
    let edit = RequestEdit::Patch(json!({"account": "open"}));
    operator::retry(&task.engine, task.id, retrial(None, edit))
        .await
        .expect("accepted");
    client::cancel(&task.engine, task.id, "client")
        .await
        .expect("accepted");
    assert_eq!(task.run_to_rest().await, TaskStatus::Cancelled);
    assert_eq!(
        seen.all(),
        [
            "reserve closed",
            "pay closed",
            "refund closed",
            "release closed"
        ]
    );
    task.assert_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_does_not_fit_or_would_not_be_used_is_refused() {
    let seen = Seen::default();
    let task = dead_letter(&seen).await;
    let before = task.record().await;
    let edit = RequestEdit::Patch(json!({"account": 7}));
    let refused = operator::retry(&task.engine, task.id, retrial(None, edit)).await;
    assert!(
        matches!(&refused, Err(OperatorError::Edit(EditError::Invalid(error))) if error.pointer == "account"),
        "{refused:?}"
    );
    let edit = RequestEdit::Patch(json!({"account": "open"}));
    let undo = retrial(Some(Direction::Undo), edit);
    let refused = operator::retry(&task.engine, task.id, undo).await;
    assert!(
        matches!(refused, Err(OperatorError::NotEditable(_))),
        "{refused:?}"
    );
    assert_eq!(task.record().await.task, before.task);
    // The same request again is no other one.
    let same = RequestEdit::Patch(json!({"account": "closed"}));
    operator::retry(&task.engine, task.id, retrial(None, same))
        .await
        .expect("accepted");
    let record = task.record().await;
    assert!(record.task.earlier_requests.is_empty());
    let entry = last(&task, "operator_redrove").await;
    assert!(entry.details.get("request_changed").is_none());
}

struct Approve;

#[distributed_task(name = "Approve", queue = "money")]
impl Approve {
    type Request = Transfer;
    type Response = u32;

    #[step(
        1,
        host = "worker",
        no_undo = "reads only",
        on_exhausted = "dead_letter"
    )]
    async fn check(req: &Transfer) -> StepResult<u32> {
        if req.account == "closed" {
            return Err(StepError::permanent("the account is closed"));
        }
        Ok(1)
    }

    #[step(2, host = "worker", undo = withdraw)]
    fn approval(_req: &Transfer) -> AwaitSignal<u32> {
        AwaitSignal::within("1h")
    }

    async fn withdraw(req: &Transfer, seen: &State<Seen>) -> UndoResult {
        seen.note("withdraw", &req.account);
        Ok(())
    }

    #[step(3, host = "worker", no_undo = "tells a person")]
    async fn confirm(req: &Transfer) -> StepResult<()> {
        if req.bounces {
            return Err(StepError::permanent("the letter came back"));
        }
        Ok(())
    }

    fn respond(approval: &u32) -> u32 {
        *approval
    }
}

struct ApproveBeside;

#[distributed_task(name = "ApproveBeside", queue = "money")]
impl ApproveBeside {
    type Request = Transfer;
    type Response = u32;

    #[step(1, host = "worker", group = "both", undo = withdraw)]
    fn approval(_req: &Transfer) -> AwaitSignal<u32> {
        AwaitSignal::within("1h")
    }

    async fn withdraw(req: &Transfer, seen: &State<Seen>) -> UndoResult {
        seen.note("withdraw", &req.account);
        Ok(())
    }

    #[step(2, host = "worker", group = "both", undo = refund, on_exhausted = "dead_letter")]
    async fn pay(req: &Transfer) -> StepResult<Paid> {
        if req.account == "closed" {
            return Err(StepError::permanent("the account is closed"));
        }
        Ok(Paid(2))
    }

    async fn refund(req: &Transfer, seen: &State<Seen>) -> UndoResult {
        seen.note("refund", &req.account);
        Ok(())
    }

    #[step(3, host = "worker", no_undo = "tells a person")]
    async fn confirm(_paid: &Paid) -> StepResult<()> {
        Err(StepError::permanent("the letter came back"))
    }

    fn respond(approval: &u32) -> u32 {
        *approval
    }
}

/// A dead letter of `Approve`, redriven with an open account; `answered`: its signal comes.
async fn approval_under_another_request(answered: bool) -> (Seen, TestTask) {
    let seen = Seen::default();
    let form = Form::new().field("account", "closed");
    let form = if answered {
        form.answer("approval", json!(7))
    } else {
        form.never_answer("approval")
    };
    let harness = Harness::embedded(only::<Approve>()).provide(seen.clone());
    let task = harness.submit(form).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::DeadLettered);
    let other = RequestEdit::Whole(json!({"account": "open", "bounces": true}));
    operator::retry(&task.engine, task.id, retrial(None, other))
        .await
        .expect("accepted");
    (seen, task)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_is_undone_by_the_request_under_which_it_began() {
    for answered in [true, false] {
        let (seen, task) = approval_under_another_request(answered).await;
        assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
        assert_eq!(seen.all(), ["withdraw open"], "answered: {answered}");
        task.assert_invariants().await;
    }
}

/// A task of this type that was not approved in time, that went on with the account `open` in its request, was
/// approved, and has failed behind that.
async fn opened_and_approved<T: DistributedTask>(seen: &Seen) -> TestTask {
    let form = Form::new()
        .field("account", "closed")
        .never_answer("approval");
    let harness = Harness::embedded(only::<T>()).provide(seen.clone());
    let task = harness.submit(form).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::DeadLettered);
    let edit = RequestEdit::Patch(json!({"account": "open"}));
    operator::retry(&task.engine, task.id, retrial(None, edit))
        .await
        .expect("accepted");
    task.run_to_wait().await;
    client::signal(&task.engine, task.id, "approval", json!(7), "client")
        .await
        .expect("accepted");
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    task
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_goes_on_keeps_the_request_under_which_it_began() {
    let seen = Seen::default();
    let task = opened_and_approved::<ApproveBeside>(&seen).await;
    let mut seen = seen.all();
    seen.sort();
    assert_eq!(seen, ["refund open", "withdraw closed"]);
    task.assert_invariants().await;
}

const LATER: RetryPolicy = RetryPolicy::constant("30m").max_retries(1);

struct PayOrBill;

#[distributed_task(name = "PayOrBill", queue = "money")]
impl PayOrBill {
    type Request = Transfer;
    type Response = u32;

    #[step(1, host = "worker", group = "both", retry = LATER, undo = refund, fallback = bill)]
    async fn pay(req: &Transfer, seen: &State<Seen>) -> StepResult<Paid> {
        seen.note("pay", &req.account);
        Err(StepError::permanent("unknown whether it was paid"))
    }

    async fn bill(ctx: &StepContext, req: &Transfer, seen: &State<Seen>) -> StepResult<Paid> {
        seen.note("bill", &req.account);
        if ctx.attempt().0 == 2 {
            return Err(StepError::transient("the printer is off"));
        }
        Ok(Paid(1))
    }

    async fn refund(req: &Transfer, seen: &State<Seen>) -> UndoResult {
        seen.note("refund", &req.account);
        Ok(())
    }

    #[step(2, host = "worker", group = "both", on_exhausted = "dead_letter")]
    fn approval(_req: &Transfer) -> AwaitSignal<u32> {
        AwaitSignal::within("5m")
    }

    #[step(3, host = "worker", no_undo = "tells a person")]
    async fn confirm(_paid: &Paid) -> StepResult<()> {
        Err(StepError::permanent("the letter came back"))
    }

    fn respond(approval: &u32) -> u32 {
        *approval
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fallback_that_goes_on_keeps_the_request_of_the_step_that_gave_up() {
    let seen = Seen::default();
    let task = opened_and_approved::<PayOrBill>(&seen).await;
    assert_eq!(
        seen.all(),
        ["pay closed", "bill closed", "bill closed", "refund closed"]
    );
    task.assert_invariants().await;
}

#[derive(Debug, Serialize, Deserialize)]
struct Ticket(ScratchFile);

async fn print(ctx: &StepContext) -> StepResult<Ticket> {
    let draft = ctx.scratch("ticket.txt").await?;
    std::fs::write(draft.path(), "a ticket").transient("writing")?;
    Ok(Ticket(draft.seal().await?))
}

/// The scratch of its first step is gone once it is parked.
struct PrintTicket;

#[distributed_task(name = "PrintTicket", queue = "money")]
impl PrintTicket {
    type Request = Transfer;
    type Response = u32;

    #[step(1, host = "worker", undo = release, retry = AT_ONCE)]
    async fn reserve(ctx: &StepContext, req: &Transfer, seen: &State<Seen>) -> StepResult<Ticket> {
        seen.note("reserve", &req.account);
        print(ctx).await
    }

    async fn release(req: &Transfer, seen: &State<Seen>) -> UndoResult {
        seen.note("release", &req.account);
        Ok(())
    }

    #[step(
        2,
        host = "worker",
        no_undo = "takes nothing",
        on_exhausted = "dead_letter"
    )]
    async fn pay(req: &Transfer, ticket: &Ticket, seen: &State<Seen>) -> StepResult<u32> {
        let _ = ticket;
        seen.note("pay", &req.account);
        if req.account == "closed" {
            return Err(StepError::permanent("the account is closed"));
        }
        Ok(2)
    }

    #[step(3, host = "worker", no_undo = "tells a person")]
    async fn confirm(req: &Transfer) -> StepResult<()> {
        if req.bounces {
            return Err(StepError::permanent("the letter came back"));
        }
        Ok(())
    }

    fn respond(pay: &u32) -> u32 {
        *pay
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_whose_scratch_was_lost_is_given_the_request_under_which_it_completed() {
    // Also where the first try to make it again fails.
    for fails in [false, true] {
        let seen = Seen::default();
        let mut harness = Harness::embedded(only::<PrintTicket>()).provide(seen.clone());
        if fails {
            let again = Fault::at("reserve", FaultKind::FailTransiently).on_attempt(2);
            harness = harness.fault(again);
        }
        let task = harness.submit(Form::new().field("account", "closed")).await;
        assert_eq!(task.run_to_rest().await, TaskStatus::DeadLettered);
        let other = RequestEdit::Whole(json!({"account": "open", "bounces": true}));
        operator::retry(&task.engine, task.id, retrial(None, other))
            .await
            .expect("accepted");
        assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
        let mut seen = seen.all();
        seen.dedup();
        assert_eq!(
            seen,
            [
                "reserve closed",
                "pay closed",
                "reserve closed",
                "pay open",
                "release closed"
            ],
            "fails: {fails}"
        );
        task.assert_invariants().await;
    }
}

/// The first step depends on the request, and the scratch of it is gone once the task is parked.
struct PrintAtChoice;

#[distributed_task(name = "PrintAtChoice", queue = "money")]
impl PrintAtChoice {
    type Request = Transfer;
    type Response = u32;

    #[step(1, host = "worker", undo = release, when = is_printed)]
    async fn reserve(ctx: &StepContext, req: &Transfer, seen: &State<Seen>) -> StepResult<Ticket> {
        seen.note("reserve", &req.account);
        print(ctx).await
    }

    fn is_printed(req: &Transfer) -> bool {
        req.account == "closed"
    }

    async fn release(req: &Transfer, seen: &State<Seen>) -> UndoResult {
        seen.note("release", &req.account);
        Ok(())
    }

    #[step(
        2,
        host = "worker",
        no_undo = "takes nothing",
        on_exhausted = "dead_letter"
    )]
    async fn pay(req: &Transfer, ticket: Option<&Ticket>) -> StepResult<u32> {
        let _ = ticket;
        if req.account == "closed" {
            return Err(StepError::permanent("the account is closed"));
        }
        Ok(2)
    }

    #[step(3, host = "worker", no_undo = "tells a person")]
    async fn confirm(req: &Transfer) -> StepResult<()> {
        if req.bounces {
            return Err(StepError::permanent("the letter came back"));
        }
        Ok(())
    }

    fn respond(pay: &u32) -> u32 {
        *pay
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_condition_of_a_step_that_has_run_is_not_asked_again() {
    let seen = Seen::default();
    let harness = Harness::embedded(only::<PrintAtChoice>()).provide(seen.clone());
    let task = harness.submit(Form::new().field("account", "closed")).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::DeadLettered);
    let other = RequestEdit::Whole(json!({"account": "open", "bounces": true}));
    operator::retry(&task.engine, task.id, retrial(None, other))
        .await
        .expect("accepted");
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    let last = seen.all().pop();
    assert_eq!(
        last.as_deref(),
        Some("release closed"),
        "{}",
        task.trail().await
    );
    task.assert_trail(
        "reserve ok, pay failed, dead_lettered, pay redriven, reserve scratch lost, reserve ok, pay ok, confirm \
         failed, confirm waived, pay waived, reserve undone, failed",
    )
    .await;
}

fn resolution(settled: SettledAs, other: Option<counterstep_contracts::TaskId>) -> Resolution {
    Resolution {
        step: None,
        settled,
        output: None,
        task: other,
        actor: "operator:kim".to_owned(),
        note: "seen to it".to_owned(),
        bulk: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settled_task_says_what_has_become_of_it() {
    let other = "01930d2c-6c4b-7d5e-8f00-0123456789ab"
        .parse()
        .expect("an id");
    for (settled, of) in [
        (SettledAs::Done, None),
        (SettledAs::NotNeeded, None),
        (SettledAs::Redriven, Some(other)),
    ] {
        let task = dead_letter(&Seen::default()).await;
        operator::resolve(&task.engine, task.id, resolution(settled, of))
            .await
            .expect("accepted");
        let record = task.record().await;
        assert_eq!(record.task.status, TaskStatus::Resolved);
        let expected = Settled { settled, task: of };
        assert_eq!(record.task.settled, Some(expected));
        // Its reservation stays, unless a person has seen to all of it.
        assert_eq!(record.task.residue, settled != SettledAs::Done, "{settled}");
        let details = last(&task, "operator_resolved").await.details;
        assert_eq!(details["as"], settled.as_str());
        assert_eq!(details.get("task").is_some(), of.is_some());
        task.assert_invariants().await;
    }
    let task = dead_letter(&Seen::default()).await;
    for (settled, of) in [(SettledAs::Redriven, None), (SettledAs::Done, Some(other))] {
        let refused = operator::resolve(&task.engine, task.id, resolution(settled, of)).await;
        assert!(
            matches!(refused, Err(OperatorError::NotSettleable(_))),
            "{refused:?}"
        );
    }
    let of_a_step = Resolution {
        step: Some("pay".to_owned()),
        ..resolution(SettledAs::NotNeeded, None)
    };
    let refused = operator::resolve(&task.engine, task.id, of_a_step).await;
    assert!(
        matches!(refused, Err(OperatorError::NotSettleable(_))),
        "{refused:?}"
    );
}
