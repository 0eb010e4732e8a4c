//! A task that waits for another submission of its key, which replaces it.

use crate::errand::only;
use crate::limits::{inside, service};
use crate::places::{Import, asleep, submit};
use counterstep_contracts::{TaskStatus, WaitReason};
use counterstep_kernel::operator::{Surroundings, why_among};
use counterstep_macros::distributed_task;
use counterstep_steps::StepResult;
use counterstep_testkit::Harness;

struct ImportLast;

#[distributed_task(
    name = "ImportLast",
    key = "req.customer",
    at_once = 1,
    debounce = "5s",
    cancellable
)]
impl ImportLast {
    type Request = Import;
    type Response = ();

    #[step(1, host = "worker", timeout = "1h", no_undo = "does nothing")]
    async fn import(req: &Import) -> StepResult<u32> {
        service(&req.service).call().await;
        Ok(1)
    }

    fn respond() {}
}

#[tokio::test]
async fn of_submissions_in_quick_succession_the_last_one_runs() {
    let mut site = Harness::embedded(only::<ImportLast>()).start().await;
    site.serve(8);
    let called = service("last");
    let first = submit(&site, "last", "a", 3).await;
    site.all_are(TaskStatus::Cancelled, &first[..2]).await;
    for (older, newer) in [(first[0], first[1]), (first[1], first[2])] {
        let failure = site.record(older).await.task.failure.expect("a reason");
        assert_eq!(failure.class, "replaced");
        let named = failure.message.contains(&newer.to_string())
            || failure.message.contains(&first[2].to_string());
        assert!(named, "{}", failure.message);
    }
    let early = |record: &counterstep_kernel::record::TaskRecord| {
        record.task.waiting == Some(WaitReason::Debounce)
    };
    site.all("early", &first[2..], early).await;
    site.clock.advance("4s");
    let record = site.record(first[2]).await;
    assert_eq!(record.steps[0].attempts.0, 0);
    let why = why_among(&site.engine.registry, &record, &Surroundings::default());
    assert!(
        why.because[0].detail.contains("no other task of its key"),
        "{why:?}"
    );
    assert!(why.because[0].until.is_some(), "{why:?}");
    site.clock.advance("1s");
    inside(&called, 1).await;

    // Of those that come while it runs, the last one follows on it, and none beside it.
    let then = submit(&site, "last", "a", 2).await;
    site.all_are(TaskStatus::Cancelled, &then[..1]).await;
    site.all("early", &then[1..], early).await;
    site.clock.advance("5s");
    asleep(&site, &then[1..]).await;
    called.gate.add_permits(1);
    site.all_are(TaskStatus::Completed, &first[2..]).await;
    inside(&called, 1).await;
    called.gate.add_permits(1);
    site.all_are(TaskStatus::Completed, &then[1..]).await;
    assert_eq!(called.most(), 1);
    site.assert_invariants(&[first, then].concat()).await;
}
