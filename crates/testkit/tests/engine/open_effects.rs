//! What tasks at rest have done outside and nothing has taken back: by kind, with amounts, page by page.

use crate::operator::resolution;
use counterstep_contracts::bulk::Amount;
use counterstep_contracts::open_effects::{OpenEffectKind, OpenEffects};
use counterstep_contracts::{SettledAs, TaskId, TaskStatus, Tenant};
use counterstep_kernel::dead_letters::Selection;
use counterstep_kernel::operator::{
    OPEN_EFFECT_STATES, list_open_effects, resolve, sum_open_effects,
};
use counterstep_macros::distributed_task;
use counterstep_steps::schemars::{self, JsonSchema};
use counterstep_steps::{Registry, StepError, StepResult, UndoResult};
use counterstep_testkit::{Form, Harness, Site};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
struct Purchase {
    #[schemars(extend("x-amount" = {"minor": 2, "currency": "EUR"}))]
    cents: u64,
    /// It cannot be paid back.
    is_spent: bool,
    /// Each step succeeds.
    completes: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
struct Paid {
    #[schemars(extend("x-amount" = {"minor": 2, "currency": "EUR"}))]
    cents: u64,
    is_spent: bool,
}

fn pay_back(paid: Option<Paid>) -> UndoResult {
    match paid {
        Some(Paid { is_spent: true, .. }) => Err(StepError::permanent("the money is spent")),
        _ => Ok(()),
    }
}

fn deliver_if(req: &Purchase) -> StepResult<()> {
    match req.completes {
        true => Ok(()),
        false => Err(StepError::permanent("the shop has closed")),
    }
}

/// Pays, writes a letter that nothing takes back, and fails with its last step, which has an undo or none.
macro_rules! purchase {
    ($type:ident, $name:literal, $($policy:tt)*) => {
        struct $type;

        #[distributed_task(name = $name, queue = "orders")]
        impl $type {
            type Request = Purchase;
            type Response = ();

            #[step(1, host = "worker", undo = refund)]
            async fn pay(req: &Purchase) -> StepResult<Paid> {
                Ok(Paid { cents: req.cents, is_spent: req.is_spent })
            }

            async fn refund(out: Option<Paid>) -> UndoResult {
                pay_back(out)
            }

            #[step(2, host = "worker", no_undo = "a letter that was sent is sent")]
            async fn mail(_paid: &Paid) -> StepResult<u8> {
                Ok(1)
            }

            #[step(3, host = "worker", undo = fetch, on_exhausted = $($policy)*)]
            async fn deliver(req: &Purchase, _mail: &u8) -> StepResult<()> {
                deliver_if(req)
            }

            async fn fetch() -> UndoResult {
                Ok(())
            }

            fn respond() {}
        }
    };
}

purchase!(Undone, "Undone", "compensate");
purchase!(Parked, "Parked", "dead_letter");
purchase!(Hasty, "Hasty", "fail");

fn purchases() -> Registry {
    Registry::new()
        .with::<Undone>()
        .with::<Parked>()
        .with::<Hasty>()
}

fn all(task_type: Option<&str>) -> Selection {
    Selection {
        task_type: task_type.map(str::to_owned),
        ..Selection::of(Tenant::default(), OPEN_EFFECT_STATES.to_vec())
    }
}

/// Of 10.50 EUR.
fn purchase(form: Form, is_spent: bool, completes: bool) -> Form {
    let form = form.field("cents", 1_050).field("is_spent", is_spent);
    form.field("completes", completes)
}

async fn settled(site: &Site, task: TaskId, step: Option<&str>, settled: SettledAs) {
    let resolution = resolution(step, settled, None);
    let answer = resolve(&site.engine, task, resolution).await;
    answer.expect("it is settled");
}

fn sum(amounts: &[Amount]) -> String {
    Amount::listed(amounts)
}

/// Step, kind and amounts of each effect of a task.
fn shown(found: &OpenEffects) -> Vec<(String, OpenEffectKind, String)> {
    let effects = found.effects.iter();
    effects
        .map(|it| (it.step.clone(), it.kind, sum(&it.amounts)))
        .collect()
}

fn open(of: &[(&str, OpenEffectKind, &str)]) -> Vec<(String, OpenEffectKind, String)> {
    let of = of.iter();
    of.map(|(step, kind, sum)| ((*step).to_owned(), *kind, (*sum).to_owned()))
        .collect()
}

async fn of_task(site: &Site, task: TaskId) -> Vec<(String, OpenEffectKind, String)> {
    let found = list_open_effects(&site.engine, &all(None), &[], None, 1_000).await;
    let (tasks, next) = found.expect("an answer");
    assert_eq!(next, None);
    tasks
        .iter()
        .find(|it| it.task_id == task)
        .map(shown)
        .unwrap_or_default()
}

const EUR: &str = ", 10.50 EUR";

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_taken_back_is_listed_with_why_and_how_much_it_is() {
    use OpenEffectKind::{InDoubt, Left, Parked as OfParked, UndoFailed, Waived};
    let mut site = Harness::embedded(purchases()).start().await;
    site.serve(2);
    let (undone, parked, hasty) = (Form::to::<Undone>, Form::to::<Parked>, Form::to::<Hasty>);
    let completed = site.submit(purchase(undone(), true, true)).await;
    site.all_are(TaskStatus::Completed, &[completed]).await;
    let failed = site.submit(purchase(undone(), false, false)).await;
    let left = site.submit(purchase(hasty(), false, false)).await;
    site.all_are(TaskStatus::Failed, &[failed, left]).await;
    let stuck = site.submit(purchase(undone(), true, false)).await;
    site.all_are(TaskStatus::CompensationFailed, &[stuck]).await;
    let waits = site.submit(purchase(parked(), false, false)).await;
    site.all_are(TaskStatus::DeadLettered, &[waits]).await;

    // A letter is out however its task ends; what a task that completed has done is meant to be there.
    assert_eq!(of_task(&site, completed).await, open(&[]));
    assert_eq!(of_task(&site, failed).await, open(&[("mail", Waived, "")]));
    let of_stuck = [("mail", Waived, ""), ("pay", UndoFailed, EUR)];
    assert_eq!(of_task(&site, stuck).await, open(&of_stuck));
    // What the step did that failed is not known.
    let doubt = ("deliver", InDoubt, "");
    let of_waits = [doubt, ("mail", Waived, ""), ("pay", OfParked, EUR)];
    assert_eq!(of_task(&site, waits).await, open(&of_waits));
    let of_left = [doubt, ("mail", Waived, ""), ("pay", Left, EUR)];
    assert_eq!(of_task(&site, left).await, open(&of_left));

    let sums = sum_open_effects(&site.engine, &all(None)).await;
    let sums = sums.expect("an answer");
    assert_eq!((sums.tasks, sums.unknown, sums.complete), (4, 0, true));
    let rows = sums.sums.iter();
    let rows = rows.map(|it| {
        (
            &*it.task_type,
            &*it.step,
            it.kind,
            it.effects,
            sum(&it.amounts),
        )
    });
    assert_eq!(
        rows.collect::<Vec<_>>(),
        [
            ("Hasty", "deliver", InDoubt, 1, String::new()),
            ("Parked", "deliver", InDoubt, 1, String::new()),
            ("Undone", "pay", UndoFailed, 1, EUR.to_owned()),
            ("Parked", "pay", OfParked, 1, EUR.to_owned()),
            ("Hasty", "pay", Left, 1, EUR.to_owned()),
            ("Undone", "mail", Waived, 2, String::new()),
            ("Hasty", "mail", Waived, 1, String::new()),
            ("Parked", "mail", Waived, 1, String::new()),
        ]
    );

    // What a person says of it is what it is from then on.
    settled(&site, waits, None, SettledAs::Done).await;
    assert_eq!(of_task(&site, waits).await, open(&[]));
    settled(&site, stuck, Some("pay"), SettledAs::Skipped).await;
    site.all_are(TaskStatus::Failed, &[stuck]).await;
    let of_stuck = [("mail", Waived, ""), ("pay", InDoubt, EUR)];
    assert_eq!(of_task(&site, stuck).await, open(&of_stuck));
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_with_open_effects_are_walked_page_by_page_and_by_kind() {
    let mut site = Harness::embedded(purchases()).start().await;
    site.serve(4);
    let mut tasks = Vec::new();
    for n in 0..7 {
        let form = if n % 2 == 0 {
            Form::to::<Parked>()
        } else {
            Form::to::<Undone>()
        };
        tasks.push(site.submit(purchase(form, false, false)).await);
    }
    let mut parked: Vec<_> = tasks.iter().step_by(2).copied().collect();
    let mut failed: Vec<_> = tasks.iter().skip(1).step_by(2).copied().collect();
    // Ids of one millisecond are in no order of time.
    for ids in [&mut tasks, &mut parked, &mut failed] {
        ids.sort_unstable();
    }
    site.all_are(TaskStatus::DeadLettered, &parked).await;
    site.all_are(TaskStatus::Failed, &failed).await;
    site.stop().await;

    let walked = async |task_type: Option<&str>, kinds: &[OpenEffectKind]| {
        let (mut found, mut before) = (Vec::new(), None);
        loop {
            let page = list_open_effects(&site.engine, &all(task_type), kinds, before, 2).await;
            let (page, next) = page.expect("an answer");
            assert!(page.len() <= 2);
            found.extend(page.into_iter().map(|it| it.task_id));
            before = next;
            if before.is_none() {
                break found;
            }
        }
    };
    let newest = |tasks: &[TaskId]| tasks.iter().rev().copied().collect::<Vec<_>>();
    assert_eq!(walked(None, &[]).await, newest(&tasks));
    assert_eq!(walked(Some("Undone"), &[]).await, newest(&failed));
    let stays = [OpenEffectKind::Parked, OpenEffectKind::UndoFailed];
    assert_eq!(walked(None, &stays).await, newest(&parked));
    assert_eq!(walked(Some("Undone"), &stays).await, []);
    let other = Selection {
        tenant: Tenant("other".to_owned()),
        ..all(None)
    };
    let found = list_open_effects(&site.engine, &other, &[], None, 10).await;
    assert_eq!(found.expect("an answer"), (vec![], None));
}
