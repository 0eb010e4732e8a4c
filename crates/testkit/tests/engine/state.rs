//! What a program provides to the code of its steps: taken in every kind of function, swapped by a
//! test, and missed before anything runs.

use crate::errand::only;
use counterstep_contracts::{StepStatus, TaskStatus};
use counterstep_macros::distributed_task;
use counterstep_steps::{
    Probe, Registry, RetryPolicy, Sleep, State, StepContext, StepError, StepResult, StoredFiles,
    UndoResult, UploadMany, UploadedFile,
};
use counterstep_testkit::{Form, Harness, sweep};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// A client of a bank, as a program makes one at its start.
#[derive(Clone, Default)]
struct Bank {
    closed: bool,
    takes_no_cards: bool,
    /// By effect key.
    charges: Arc<Mutex<BTreeMap<String, u32>>>,
}

impl Bank {
    fn charges(&self) -> MutexGuard<'_, BTreeMap<String, u32>> {
        self.charges.lock().expect("no test panics in here")
    }
}

/// How long a booking may be called off.
struct Patience(Duration);

#[derive(Debug, Serialize, Deserialize)]
struct Booking {
    cents: u32,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Charged {
    key: String,
    by_invoice: bool,
}

const ONCE_MORE: RetryPolicy = RetryPolicy::constant("20ms").max_retries(1);

struct Book;

#[distributed_task(name = "Book")]
impl Book {
    type Request = Booking;
    type Response = Option<Charged>;

    #[step(1, host = "worker")]
    fn wait(patience: &State<Patience>) -> Sleep {
        Sleep::for_duration(patience.0)
    }

    fn is_open(bank: &State<Bank>) -> bool {
        !bank.closed
    }

    #[step(
        2,
        host = "worker",
        when = is_open,
        retry = ONCE_MORE,
        probe = ask,
        fallback = send_invoice,
        undo = pay_back
    )]
    async fn charge(
        ctx: &StepContext,
        booking: &Booking,
        bank: &State<Bank>,
    ) -> StepResult<Charged> {
        if bank.takes_no_cards {
            return Err(StepError::permanent("no cards"));
        }
        let key = ctx.effect_key();
        bank.charges().insert(key.clone(), booking.cents);
        Ok(Charged {
            key,
            by_invoice: false,
        })
    }

    async fn ask(ctx: &StepContext, bank: &State<Bank>) -> StepResult<Probe<Charged>> {
        let key = ctx.effect_key();
        Ok(if bank.charges().contains_key(&key) {
            Probe::Done(Charged {
                key,
                by_invoice: false,
            })
        } else {
            Probe::NothingHappened
        })
    }

    async fn send_invoice(ctx: &StepContext, bank: &State<Bank>) -> StepResult<Charged> {
        let key = ctx.effect_key();
        bank.charges().insert(key.clone(), 0);
        Ok(Charged {
            key,
            by_invoice: true,
        })
    }

    async fn pay_back(out: Option<Charged>, bank: &State<Bank>) -> UndoResult {
        bank.charges()
            .remove(&out.map(|charged| charged.key).unwrap_or_default());
        Ok(())
    }

    #[step(
        3,
        host = "worker",
        no_undo = "a ticket that is not used is worth nothing"
    )]
    async fn print_ticket() -> StepResult<u32> {
        Ok(1)
    }

    fn respond(charge: Option<&Charged>) -> Option<Charged> {
        charge.map(|charged| Charged {
            key: charged.key.clone(),
            by_invoice: charged.by_invoice,
        })
    }
}

fn program() -> Registry {
    only::<Book>()
        .provide(Bank::default())
        .provide(Patience(Duration::ZERO))
}

fn form() -> Form {
    Form::new().field("cents", 1250)
}

#[tokio::test]
async fn every_function_gets_what_the_program_provides_whatever_goes_wrong() {
    sweep::every_fault(program, form).await;
}

#[tokio::test]
async fn all_attempts_and_undos_share_one_value_and_a_test_swaps_it() {
    let bank = Bank::default();
    let harness = Harness::embedded(program()).provide(bank.clone());
    let task = harness.submit(form()).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    assert_eq!(bank.charges().values().collect::<Vec<_>>(), [&1250]);

    let undone = Harness::embedded(program()).provide(bank.clone());
    let undone = undone.fail_at("print_ticket").submit(form()).await;
    assert_eq!(undone.run_to_rest().await, TaskStatus::Failed);
    assert_eq!(bank.charges().len(), 1, "the second booking is paid back");
}

#[tokio::test]
async fn conditions_fallbacks_and_probes_decide_by_it() {
    let closed = Bank {
        closed: true,
        ..Bank::default()
    };
    let task = Harness::embedded(program()).provide(closed);
    let task = task.submit(form()).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    assert_eq!(task.record().await.steps[1].status, StepStatus::Skipped);

    let no_cards = Bank {
        takes_no_cards: true,
        ..Bank::default()
    };
    let task = Harness::embedded(program()).provide(no_cards);
    let task = task.submit(form()).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    let response = task.record().await.task.response.expect("a response");
    assert_eq!(response["by_invoice"], true);

    let bank = Bank::default();
    let crashed = Harness::embedded(program())
        .provide(bank.clone())
        .crash_at("charge");
    let crashed = crashed.submit(form()).await;
    assert_eq!(crashed.run_to_rest().await, TaskStatus::Completed);
    let record = crashed.record().await;
    assert_eq!(record.steps[1].attempts.0, 1, "the probe found it done");
    assert_eq!(bank.charges().len(), 1);
}

#[test]
fn what_no_program_provides_is_named_with_its_step_before_anything_runs() {
    let registry = only::<Book>().provide(Patience(Duration::ZERO));
    let missing = registry.check_states().expect_err("no bank");
    assert_eq!(
        missing.to_string(),
        format!(
            "task type `Book`: `charge` of step `charge` takes `&State<{}>`, and the program provides no such value; \
             expected `Registry::provide(..)` with one",
            std::any::type_name::<Bank>()
        )
    );
    program().check_states().expect("all is there");
}

#[tokio::test]
#[should_panic(expected = "the program provides no such value")]
async fn a_harness_without_it_says_so() {
    Harness::embedded(only::<Book>()).submit(form()).await;
}

#[tokio::test]
async fn a_harness_makes_what_is_made_at_the_start_unless_the_test_swaps_it() {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let registry = || {
        let make = || async {
            MADE.fetch_add(1, Ordering::Relaxed);
            Ok::<_, std::io::Error>(Bank::default())
        };
        only::<Book>()
            .provide_with(make)
            .provide(Patience(Duration::ZERO))
    };
    let task = Harness::embedded(registry()).submit(form()).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    assert_eq!(MADE.load(Ordering::Relaxed), 1);

    let swapped = Harness::embedded(registry()).provide(Bank::default());
    let swapped = swapped.submit(form()).await;
    assert_eq!(swapped.run_to_rest().await, TaskStatus::Completed);
    assert_eq!(MADE.load(Ordering::Relaxed), 1);
}

/// Where uploads go.
struct Bucket(&'static str);

#[derive(Debug, Serialize, Deserialize)]
struct Album {
    pictures: Vec<UploadedFile>,
}

/// Its first two steps run while the request is open, outside of any worker.
struct Print;

#[distributed_task(name = "Print")]
impl Print {
    type Request = Album;
    type Response = u64;

    #[step(1, host = "api")]
    fn keep(album: &Album, bucket: &State<Bucket>) -> UploadMany {
        UploadMany::to(bucket.0, &album.pictures)
    }

    #[step(2, host = "api")]
    #[pure]
    async fn quote(keep: &StoredFiles, patience: &State<Patience>) -> StepResult<u64> {
        let cents = if patience.0.is_zero() { 50 } else { 20 };
        Ok(keep.0.len() as u64 * cents)
    }

    #[step(3, host = "worker", no_undo = "paper")]
    async fn print() -> StepResult<u32> {
        Ok(1)
    }

    fn respond(quote: &u64) -> u64 {
        *quote
    }
}

#[tokio::test]
async fn steps_that_run_while_the_request_is_open_get_it_too() {
    let registry = only::<Print>()
        .provide(Bucket("pictures"))
        .provide(Patience(Duration::from_secs(60)));
    let form = Form::new()
        .file("pictures", "a.png", "one")
        .file("pictures", "b.png", "two");
    let task = Harness::embedded(registry).submit(form).await;
    let record = task.record().await;
    let before_any_turn = record.steps.iter().map(|row| row.status);
    assert_eq!(
        before_any_turn.collect::<Vec<_>>(),
        [
            StepStatus::Completed,
            StepStatus::Completed,
            StepStatus::Pending
        ]
    );
    let buckets: Vec<_> = task
        .objects()
        .await
        .into_iter()
        .map(|it| it.bucket)
        .collect();
    assert_eq!(buckets, ["pictures", "pictures"]);
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    assert_eq!(task.record().await.task.response, Some(40.into()));
}

#[tokio::test]
#[should_panic(expected = "no step of these types takes `&State<..>` of u8")]
async fn a_harness_with_a_value_that_no_step_takes_says_so() {
    let harness = Harness::embedded(program()).provide(7_u8);
    harness.submit(form()).await;
}

#[test]
fn a_value_is_never_shown() {
    let registry = Registry::new().provide("hunter2".to_owned());
    assert!(!format!("{registry:?}").contains("hunter2"));
    let state = registry.states().get::<String>().expect("it is there");
    assert_eq!(
        (state.as_str(), format!("{state:?}")),
        ("hunter2", "State<alloc::string::String>".to_owned())
    );
}
