//! Steps that say that they are alive, and those that do not.

use crate::errand::{QUICK, only};
use counterstep_contracts::{TaskId, TaskStatus};
use counterstep_macros::distributed_task;
use counterstep_steps::{StepContext, StepError, StepResult};
use counterstep_testkit::{Form, Harness, Site};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;
use tokio::sync::{Mutex as AsyncMutex, mpsc, oneshot};

/// What a patient is told to do, and who hears that it has.
#[derive(Debug)]
enum Do {
    Beat(oneshot::Sender<()>),
    Tell(oneshot::Sender<()>),
    Leave,
}

type Orders = Arc<AsyncMutex<mpsc::UnboundedReceiver<Do>>>;
static ORDERS: LazyLock<Mutex<HashMap<String, Orders>>> = LazyLock::new(Mutex::default);

#[derive(Debug, Serialize, Deserialize)]
struct Bed {
    patient: String,
}

struct Watch;

#[distributed_task(name = "Watch", queue = "beds")]
impl Watch {
    type Request = Bed;
    type Response = u8;

    #[step(1, host = "worker", retry = QUICK, heartbeat = "30s", timeout = "1h", no_undo = "test")]
    async fn lie(ctx: &StepContext, bed: &Bed) -> StepResult<u8> {
        let orders = ORDERS.lock().unwrap()[&bed.patient].clone();
        let mut orders = orders.lock().await;
        while let Some(order) = orders.recv().await {
            match order {
                Do::Beat(heard) => {
                    ctx.heartbeat();
                    let _ = heard.send(());
                }
                Do::Tell(heard) => {
                    ctx.progress(1, 2);
                    let _ = heard.send(());
                }
                Do::Leave => return Ok(1),
            }
        }
        Err(StepError::permanent("no orders come"))
    }

    fn respond(lie: &u8) -> u8 {
        *lie
    }
}

struct Patient {
    site: Site,
    task: TaskId,
    orders: mpsc::UnboundedSender<Do>,
}

impl Patient {
    async fn of(name: &str) -> Self {
        let (orders, taken) = mpsc::unbounded_channel();
        let taken = Arc::new(AsyncMutex::new(taken));
        ORDERS.lock().unwrap().insert(name.to_owned(), taken);
        // The time that passes here is none that a lease may end in.
        let long = |settings: &mut counterstep_kernel::EngineSettings| {
            settings.lease = Duration::from_secs(24 * 3600);
        };
        let mut site = Harness::embedded(only::<Watch>())
            .settings(long)
            .start()
            .await;
        site.serve(1);
        let task = site.submit(Form::new().field("patient", name)).await;
        Self { site, task, orders }
    }

    async fn does(&self, order: impl FnOnce(oneshot::Sender<()>) -> Do) {
        let (heard, done) = oneshot::channel();
        self.orders.send(order(heard)).unwrap();
        done.await.expect("the step runs");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_says_that_it_is_alive_runs_as_long_as_it_takes() {
    let patient = Patient::of("well").await;
    for _ in 0..3 {
        patient.does(Do::Beat).await;
        patient.site.clock.advance("20s");
        patient.does(Do::Tell).await;
        patient.site.clock.advance("20s");
    }
    patient.orders.send(Do::Leave).unwrap();
    let records = patient
        .site
        .all_are(TaskStatus::Completed, &[patient.task])
        .await;
    assert_eq!(records[0].steps[0].attempts.0, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_falls_silent_has_timed_out_long_before_its_limit_and_is_retried() {
    let patient = Patient::of("ill").await;
    patient.does(Do::Beat).await;
    patient.site.clock.advance("31s");
    let records = patient
        .site
        .all("a second attempt", &[patient.task], |record| {
            record.steps[0].attempts.0 == 2
        })
        .await;
    assert_eq!(records[0].steps[0].retries_used, 1);
    let past = patient.site.history(patient.task).await;
    let error = past.attempts[0].error.as_ref().expect("an error");
    assert_eq!(error.class, "timed_out");
    assert_eq!(
        error.message,
        "gave no heartbeat, and told no progress, for 30s"
    );
    patient.orders.send(Do::Leave).unwrap();
    patient
        .site
        .all_are(TaskStatus::Completed, &[patient.task])
        .await;
}
