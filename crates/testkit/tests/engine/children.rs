//! Steps that submit tasks and wait for them: what they give, what becomes of those tasks when one of
//! them, or their parent, does not complete.

use counterstep_contracts::operator::WhyCode;
use counterstep_contracts::{Host, SettledAs, StepNo, StepStatus, TaskId, TaskStatus, WaitReason};
use counterstep_kernel::EngineSettings;
use counterstep_kernel::change::Author;
use counterstep_kernel::client;
use counterstep_kernel::draft::Draft;
use counterstep_kernel::engine::faults::{Fault, FaultKind};
use counterstep_kernel::operator::{self, Resolution};
use counterstep_kernel::ports::{ChildLine, ChildQuery};
use counterstep_kernel::record::TaskRecord;
use counterstep_kernel::turn::turn;
use counterstep_macros::distributed_task;
use counterstep_reconciler::parents;
use counterstep_steps::output_limit::OutputLimit;
use counterstep_steps::{
    AwaitTask, BranchOutcome, Branches, CancelToken, ChildOutcome, EachOutcome, ForEach, Registry,
    RetryPolicy, StepContext, StepError, StepResult, UndoResult,
};
use counterstep_testkit::clock::{until_works, work_for};
use counterstep_testkit::many_tasks::eventually;
use counterstep_testkit::{Form, Harness, Site};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::time::Duration;

/// What a child is to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Seat {
    no: u32,
    /// Fails permanently.
    #[serde(default)]
    fails: bool,
    /// How long it takes, by the test's clock.
    #[serde(default)]
    takes_ms: u64,
}

pub(crate) struct BookSeat;

#[distributed_task(name = "BookSeat", queue = "seats", label(seat = "req.no"))]
impl BookSeat {
    type Request = Seat;
    type Response = String;

    #[step(1, host = "worker", undo = give_back)]
    async fn reserve(ctx: &StepContext, seat: &Seat) -> StepResult<u32> {
        work_for(ctx.task_id(), Duration::from_millis(seat.takes_ms)).await;
        Ok(seat.no)
    }

    async fn give_back(_out: Option<u32>) -> UndoResult {
        Ok(())
    }

    #[step(2, host = "worker", no_undo = "nothing is kept")]
    async fn confirm(seat: &Seat) -> StepResult<String> {
        if seat.fails {
            return Err(StepError::permanent("the seat is broken"));
        }
        Ok(format!("seat {}", seat.no))
    }

    fn respond(confirm: &String) -> String {
        confirm.clone()
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Trip {
    seat: Seat,
    /// The step behind the seat fails permanently.
    #[serde(default)]
    fails_later: bool,
}

pub(crate) struct BookTrip;

#[distributed_task(name = "BookTrip", queue = "trips", cancellable)]
impl BookTrip {
    type Request = Trip;
    type Response = String;

    #[step(1, host = "worker", undo = unpack)]
    async fn pack(_trip: &Trip) -> StepResult<u8> {
        Ok(1)
    }

    async fn unpack(_out: Option<u8>) -> UndoResult {
        Ok(())
    }

    #[step(2, host = "worker")]
    fn seat(trip: &Trip) -> AwaitTask<BookSeat> {
        AwaitTask::of(&trip.seat)
    }

    #[step(3, host = "worker", no_undo = "nothing is kept")]
    async fn depart(trip: &Trip, seat: &String) -> StepResult<()> {
        let _ = seat;
        if trip.fails_later {
            return Err(StepError::permanent("the road is closed"));
        }
        Ok(())
    }

    fn respond(seat: &String) -> String {
        format!("a trip on {seat}")
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Group {
    seats: Vec<Seat>,
    at_a_time: usize,
}

pub(crate) struct BookAll;

#[distributed_task(name = "BookAll", queue = "groups", cancellable)]
impl BookAll {
    type Request = Group;
    type Response = Vec<String>;

    #[step(1, host = "worker")]
    fn seats(group: &Group) -> ForEach<BookSeat> {
        ForEach::of(&group.seats).at_a_time(group.at_a_time)
    }

    fn respond(seats: &Vec<String>) -> Vec<String> {
        seats.clone()
    }
}

pub(crate) struct BookSome;

#[distributed_task(name = "BookSome", queue = "some")]
impl BookSome {
    type Request = Group;
    type Response = Vec<ChildOutcome<String>>;

    #[step(1, host = "worker")]
    fn seats(group: &Group) -> EachOutcome<BookSeat> {
        ForEach::of(&group.seats)
            .at_a_time(group.at_a_time)
            .outcomes()
            .at_least(1)
    }

    fn respond(seats: &Vec<ChildOutcome<String>>) -> Vec<ChildOutcome<String>> {
        seats.clone()
    }
}

pub(crate) struct BookAny;

#[distributed_task(name = "BookAny", queue = "any")]
impl BookAny {
    type Request = Group;
    type Response = Vec<String>;

    #[step(1, host = "worker")]
    fn seats(group: &Group) -> Branches {
        let branches = group
            .seats
            .iter()
            .fold(Branches::new(), |all, seat| all.with::<BookSeat>(seat));
        branches.any()
    }

    #[step(2, host = "worker", no_undo = "nothing is kept")]
    async fn read(seats: &Vec<BranchOutcome>) -> StepResult<Vec<String>> {
        let booked: StepResult<Vec<_>> = seats
            .iter()
            .map(|end| end.response_of::<BookSeat>())
            .collect();
        Ok(booked?.into_iter().flatten().collect())
    }

    fn respond(read: &Vec<String>) -> Vec<String> {
        read.clone()
    }
}

pub(crate) struct Tour;

#[distributed_task(name = "Tour", queue = "tours")]
impl Tour {
    type Request = Trip;
    type Response = String;

    #[step(1, host = "worker")]
    fn trip(tour: &Trip) -> AwaitTask<BookTrip> {
        AwaitTask::of(&Trip {
            seat: tour.seat.clone(),
            fails_later: false,
        })
    }

    #[step(2, host = "api", no_undo = "nothing is kept")]
    async fn bill(tour: &Trip, trip: &String) -> StepResult<String> {
        if tour.fails_later {
            return Err(StepError::permanent("the card was declined"));
        }
        Ok(trip.clone())
    }

    fn respond(bill: &String) -> String {
        bill.clone()
    }
}

const SLOWLY: RetryPolicy = RetryPolicy::constant("30s").max_retries(3);

/// Its seats are left as they are when it is undone.
pub(crate) struct BookKept;

#[distributed_task(name = "BookKept", queue = "kept")]
impl BookKept {
    type Request = Group;
    type Response = u32;

    #[step(1, host = "worker", undo = unpay, undo_retry = SLOWLY)]
    async fn pay(_group: &Group) -> StepResult<u32> {
        Ok(1)
    }

    async fn unpay(_out: Option<u32>) -> UndoResult {
        Ok(())
    }

    #[step(2, host = "worker", no_undo = "a seat may be used by others")]
    fn seats(group: &Group) -> ForEach<BookSeat> {
        ForEach::of(&group.seats).at_a_time(group.at_a_time)
    }

    fn respond(pay: &u32) -> u32 {
        *pay
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Depth {}

/// Awaits itself, without end.
pub(crate) struct Endless;

#[distributed_task(name = "Endless", queue = "endless")]
impl Endless {
    type Request = Depth;
    type Response = u32;

    #[step(1, host = "worker")]
    fn deeper(_depth: &Depth) -> AwaitTask<Endless> {
        AwaitTask::of(&Depth {})
    }

    fn respond(deeper: &u32) -> u32 {
        *deeper
    }
}

fn types() -> Registry {
    Registry::new()
        .with::<Tour>()
        .with::<Endless>()
        .with::<BookKept>()
        .with::<BookSeat>()
        .with::<BookTrip>()
        .with::<BookAll>()
        .with::<BookSome>()
        .with::<BookAny>()
}

fn seat(no: u32) -> Seat {
    Seat {
        no,
        fails: false,
        takes_ms: 0,
    }
}

async fn children_of(site: &Site, parent: TaskId) -> Vec<ChildLine> {
    let query = ChildQuery {
        parent,
        step: None,
        statuses: Vec::new(),
        after: None,
        limit: 2_000,
    };
    site.engine
        .ports
        .store
        .children(&query)
        .await
        .expect("the store answers")
}

async fn statuses_of(site: &Site, parent: TaskId) -> Vec<TaskStatus> {
    children_of(site, parent)
        .await
        .iter()
        .map(|line| line.status)
        .collect()
}

/// Parent and children.
async fn family(site: &Site, parent: TaskId) -> Vec<TaskId> {
    let mut all = vec![parent];
    all.extend(children_of(site, parent).await.iter().map(|line| line.task));
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_waits_for_its_task_and_gives_its_response() {
    let mut site = Harness::embedded(types()).start().await;
    let form = Form::to::<BookTrip>()
        .field("seat", json!({"no": 7}))
        .label("order", "4711");
    let trip = site.submit(form).await;
    site.serve(1);
    let [record] = site
        .all_are(TaskStatus::Completed, &[trip])
        .await
        .try_into()
        .expect("one");
    assert_eq!(record.task.response, Some(json!("a trip on seat 7")));

    let [child] = children_of(&site, trip)
        .await
        .try_into()
        .expect("one child");
    assert_eq!(
        (child.step, child.no, child.status),
        (StepNo(2), 0, TaskStatus::Completed)
    );
    let child = site.record(child.task).await.task;
    let parent = child.parent.expect("it knows its parent");
    assert_eq!((parent.task, parent.depth), (trip, 1));
    // Its own label, and its parent's.
    assert_eq!(
        child.labels.iter().collect::<Vec<_>>(),
        [("order", "4711"), ("seat", "7")]
    );
    site.assert_invariants(&family(&site, trip).await).await;
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_it_waits_it_holds_no_slot_and_no_lease() {
    let mut site = Harness::embedded(types()).start().await;
    let slow = json!({"no": 1, "takes_ms": 60_000});
    let trip = site
        .submit(Form::to::<BookTrip>().field("seat", slow))
        .await;
    // One slot: held by the parent, the child would never run.
    site.serve(1);
    let asleep = |record: &counterstep_kernel::record::TaskRecord| {
        record.task.waiting == Some(WaitReason::Children)
    };
    let [record] = site
        .all("asleep", &[trip], asleep)
        .await
        .try_into()
        .expect("one");
    assert_eq!(record.task.lease_owner, None);
    assert_eq!(record.steps[1].status, StepStatus::Waiting);
    let child = children_of(&site, trip).await[0].task;
    site.clock.runs(child);
    until_works(child).await;
    site.clock.advance("61s");
    site.all_are(TaskStatus::Completed, &[trip]).await;
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_fails_fails_its_parent_which_says_why() {
    let mut site = Harness::embedded(types()).start().await;
    let form = Form::to::<BookTrip>().field("seat", json!({"no": 1, "fails": true}));
    let trip = site.submit(form).await;
    site.serve(2);
    let [record] = site
        .all_are(TaskStatus::Failed, &[trip])
        .await
        .try_into()
        .expect("one");
    let failure = record.task.failure.expect("a failure");
    assert_eq!(failure.step.as_deref(), Some("seat"));
    let child = children_of(&site, trip).await[0].task;
    assert_eq!(
        failure.message,
        format!("its task did not complete: task {child} is failed: the seat is broken")
    );
    assert_eq!(record.steps[0].status, StepStatus::Compensated);
    site.assert_invariants(&family(&site, trip).await).await;
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completed_task_is_undone_with_its_parent_and_by_no_client() {
    let mut site = Harness::embedded(types()).start().await;
    let form = Form::to::<BookTrip>()
        .field("seat", json!({"no": 1}))
        .field("fails_later", true);
    let trip = site.submit(form).await;
    site.serve(2);
    site.all_are(TaskStatus::Failed, &[trip]).await;
    let child = children_of(&site, trip).await[0].task;
    let events: Vec<String> = site
        .history(child)
        .await
        .audit
        .into_iter()
        .map(|row| row.entry.event)
        .collect();
    let completed = events
        .iter()
        .position(|event| event == "completed")
        .expect("it had completed");
    assert_eq!(events[completed + 1], "parent_undone");
    assert_eq!(events.last().map(String::as_str), Some("cancelled"));
    let child = site.record(child).await;
    assert_eq!(child.task.status, TaskStatus::Cancelled);
    assert_eq!(child.task.response, None, "it does not count any more");
    assert_eq!(child.steps[0].status, StepStatus::Compensated);
    site.assert_invariants(&family(&site, trip).await).await;

    // A client's cancel of a completed child is refused, as that of any completed task.
    let other = site
        .submit(Form::to::<BookTrip>().field("seat", json!({"no": 2})))
        .await;
    site.all_are(TaskStatus::Completed, &[other]).await;
    let child = children_of(&site, other).await[0].task;
    let refused = client::cancel(&site.engine, child, "client")
        .await
        .expect_err("it has completed");
    assert!(
        matches!(refused, client::Refusal::TooLate(TaskStatus::Completed)),
        "{refused}"
    );
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_parent_stops_its_running_task() {
    let mut site = Harness::embedded(types()).start().await;
    let slow = json!({"no": 1, "takes_ms": 600_000});
    let trip = site
        .submit(Form::to::<BookTrip>().field("seat", slow))
        .await;
    site.serve(2);
    let child = eventually("the child", || async {
        children_of(&site, trip).await.first().map(|line| line.task)
    })
    .await;
    site.clock.runs(child);
    until_works(child).await;
    client::cancel(&site.engine, trip, "client")
        .await
        .expect("a cancel is accepted");
    site.all_are(TaskStatus::Cancelled, &[trip, child]).await;
    site.assert_invariants(&[trip, child]).await;
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_gives_its_responses_in_order_and_so_many_run_at_a_time() {
    let mut site = Harness::embedded(types()).start().await;
    let seats: Vec<Seat> = (0..30).map(seat).collect();
    let form = Form::to::<BookAll>()
        .field("seats", json!(seats))
        .field("at_a_time", 4);
    let all = site.submit(form).await;
    turn(&site.engine, Host::Worker, all, &CancelToken::new()).await;
    assert_eq!(children_of(&site, all).await.len(), 4);
    site.serve(3);
    let [record] = site
        .all_are(TaskStatus::Completed, &[all])
        .await
        .try_into()
        .expect("one");
    let expected: Vec<String> = (0..30).map(|no| format!("seat {no}")).collect();
    assert_eq!(record.task.response, Some(json!(expected)));
    let lines = children_of(&site, all).await;
    let places: Vec<u32> = lines.iter().map(|line| line.no).collect();
    assert_eq!(places, (0..30).collect::<Vec<_>>());
    site.assert_invariants(&family(&site, all).await).await;

    // None is none.
    let form = Form::to::<BookAll>()
        .field("seats", json!([]))
        .field("at_a_time", 4);
    let none = site.submit(form).await;
    let [record] = site
        .all_are(TaskStatus::Completed, &[none])
        .await
        .try_into()
        .expect("one");
    assert_eq!(record.task.response, Some(json!([])));
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_its_parent_may_undo_it_a_task_runs_again_from_the_start_only() {
    let mut site = Harness::embedded(types()).start().await;
    let seats = json!([{"no": 1}, {"no": 2, "takes_ms": 600_000}]);
    let form = Form::to::<BookAll>()
        .field("seats", seats)
        .field("at_a_time", 2);
    let all = site.submit(form).await;
    site.serve(2);
    let [quick, slow] = eventually("the children", || async {
        <[ChildLine; 2]>::try_from(children_of(&site, all).await).ok()
    })
    .await
    .map(|line| line.task);
    site.clock.runs(slow);
    site.all_are(TaskStatus::Completed, &[quick]).await;
    until_works(slow).await;
    let again = |from: Option<&str>| client::RunAgain {
        from: from.map(str::to_owned),
        edit: None,
        actor: "ada".to_owned(),
        note: "once more".to_owned(),
        key: None,
        traceparent: None,
        bulk: None,
    };
    let refused = client::run_again(&site.engine, quick, again(Some("confirm")))
        .await
        .expect_err("its parent waits");
    assert!(
        matches!(refused, client::AgainError::ParentOpen { parent, .. } if parent == all),
        "{refused}"
    );
    let whole = client::run_again(&site.engine, quick, again(None)).await;
    let whole = whole.expect("from the start").answer.task_id;
    site.all_are(TaskStatus::Completed, &[whole]).await;
    client::cancel(&site.engine, all, "client")
        .await
        .expect("a cancel is accepted");
    site.all_are(TaskStatus::Cancelled, &[all, quick, slow])
        .await;
    let from = client::run_again(&site.engine, quick, again(Some("confirm"))).await;
    assert!(
        matches!(
            from,
            Err(client::AgainError::Kept(client::CannotKeep::Undone { .. }))
        ),
        "{from:?}"
    );
    site.assert_invariants(&[all, quick, slow, whole]).await;
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_that_are_more_than_a_step_may_give_fail_it() {
    let small = |settings: &mut EngineSettings| settings.output_limit = OutputLimit(100);
    let mut site = Harness::embedded(types()).settings(small).start().await;
    let seats: Vec<Seat> = (0..20).map(seat).collect();
    let form = Form::to::<BookAll>()
        .field("seats", json!(seats))
        .field("at_a_time", 20);
    let all = site.submit(form).await;
    site.serve(3);
    let [record] = site
        .all_are(TaskStatus::Failed, &[all])
        .await
        .try_into()
        .expect("one");
    let message = record.task.failure.expect("a failure").message;
    assert!(message.contains("more than 100 bytes"), "{message}");
    site.assert_invariants(&family(&site, all).await).await;
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_a_list_that_fails_stops_the_others_and_all_that_ran_are_undone() {
    let mut site = Harness::embedded(types()).start().await;
    let mut seats: Vec<Seat> = (0..40).map(seat).collect();
    seats[11].fails = true;
    let form = Form::to::<BookAll>()
        .field("seats", json!(seats))
        .field("at_a_time", 5);
    let all = site.submit(form).await;
    site.serve(3);
    site.all_are(TaskStatus::Failed, &[all]).await;
    let lines = children_of(&site, all).await;
    assert!(lines.len() < 40, "{} were submitted", lines.len());
    for line in &lines {
        let expected = if line.no == 11 {
            TaskStatus::Failed
        } else {
            TaskStatus::Cancelled
        };
        assert_eq!(line.status, expected, "{}", line.no);
    }
    site.assert_invariants(&family(&site, all).await).await;
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_may_let_some_fail_and_says_how_each_ended() {
    let mut site = Harness::embedded(types()).start().await;
    let mut seats: Vec<Seat> = (0..3).map(seat).collect();
    seats[1].fails = true;
    let form = Form::to::<BookSome>()
        .field("seats", json!(seats))
        .field("at_a_time", 1);
    let some = site.submit(form).await;
    site.serve(2);
    let [record] = site
        .all_are(TaskStatus::Completed, &[some])
        .await
        .try_into()
        .expect("one");
    let ends: Vec<ChildOutcome<String>> =
        serde_json::from_value(record.task.response.expect("a response")).expect("ends");
    assert_eq!(ends[0].response().map(String::as_str), Some("seat 0"));
    assert_eq!(ends[2].response().map(String::as_str), Some("seat 2"));
    let ChildOutcome::Failed(failure) = &ends[1] else {
        panic!("{ends:?}")
    };
    assert_eq!(failure.status, TaskStatus::Failed);
    assert_eq!(failure.message.as_deref(), Some("the seat is broken"));

    // At least one has to complete.
    let broken: Vec<Seat> = (0..3)
        .map(|no| Seat {
            fails: true,
            ..seat(no)
        })
        .collect();
    let form = Form::to::<BookSome>()
        .field("seats", json!(broken))
        .field("at_a_time", 3);
    let none = site.submit(form).await;
    site.all_are(TaskStatus::Failed, &[none]).await;
    let all = [family(&site, some).await, family(&site, none).await].concat();
    site.assert_invariants(&all).await;
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_branch_that_completes_is_enough_and_the_others_are_undone() {
    let mut site = Harness::embedded(types()).start().await;
    let slow = |no| Seat {
        takes_ms: 3_600_000,
        ..seat(no)
    };
    let form = Form::to::<BookAny>()
        .field("seats", json!([slow(0), seat(1), slow(2)]))
        .field("at_a_time", 1);
    let any = site.submit(form).await;
    site.serve(4);
    let lines = eventually("three children", || async {
        let lines = children_of(&site, any).await;
        (lines.len() == 3).then_some(lines)
    })
    .await;
    for line in lines {
        site.clock.runs(line.task);
    }
    let [record] = site
        .all_are(TaskStatus::Completed, &[any])
        .await
        .try_into()
        .expect("one");
    assert_eq!(record.task.response, Some(json!(["seat 1"])));
    assert_eq!(
        statuses_of(&site, any).await,
        [
            TaskStatus::Cancelled,
            TaskStatus::Completed,
            TaskStatus::Cancelled
        ]
    );
    site.assert_invariants(&family(&site, any).await).await;
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_tasks_are_undone_from_the_top_down() {
    let mut site = Harness::embedded(types()).start().await;
    let tour = |fails: bool| {
        Form::to::<Tour>()
            .field("seat", json!({"no": 3}))
            .field("fails_later", fails)
    };
    let (good, bad) = (
        site.submit(tour(false)).await,
        site.submit(tour(true)).await,
    );
    site.serve(2);
    site.all_are(TaskStatus::Completed, &[good]).await;
    site.all_are(TaskStatus::Failed, &[bad]).await;
    for (top, expected) in [(good, TaskStatus::Completed), (bad, TaskStatus::Cancelled)] {
        let trip = children_of(&site, top).await[0].task;
        let seat = children_of(&site, trip).await[0].task;
        site.all_are(expected, &[trip, seat]).await;
        let parent = site.record(seat).await.task.parent.expect("a parent");
        assert_eq!((parent.task, parent.depth), (trip, 2));
        site.assert_invariants(&[top, trip, seat]).await;
    }
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn types_that_await_each_other_come_to_an_end() {
    let mut site = Harness::embedded(types()).start().await;
    let top = site.submit(Form::to::<Endless>()).await;
    site.serve(2);
    let [record] = site
        .all_are(TaskStatus::Failed, &[top])
        .await
        .try_into()
        .expect("one");
    let message = record.task.failure.expect("a failure").message;
    assert!(
        message.contains("16 tasks stand above it already"),
        "{message}"
    );
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wake_makes_no_retry_of_an_undo_early() {
    let fault = Fault::at("pay", FaultKind::FailTransiently).in_undo();
    let site = Harness::embedded(types())
        .fault(fault.on_attempt(1))
        .start()
        .await;
    let broken = Seat {
        fails: true,
        ..seat(0)
    };
    let form = Form::to::<BookKept>()
        .field("seats", json!([broken, seat(1)]))
        .field("at_a_time", 2);
    let kept = site.submit(form).await;
    let stop = CancelToken::new();
    let go_on = async |task| {
        turn(&site.engine, Host::Worker, task, &stop).await;
        site.record(task).await
    };
    go_on(kept).await;
    let lines = children_of(&site, kept).await;
    go_on(lines[0].task).await;
    let record = go_on(kept).await;
    assert_eq!(record.task.status, TaskStatus::Compensating);
    assert_eq!(record.steps[0].undo_attempts.0, 1);

    // Its other seat ends meanwhile, and wakes it.
    go_on(lines[1].task).await;
    assert!(site.record(kept).await.due_in().is_zero(), "it was woken");
    let record = go_on(kept).await;
    assert_eq!(record.steps[0].undo_attempts.0, 1, "no attempt is early");
    // Chance takes up to half of a delay.
    assert!(record.due_in() > Duration::from_secs(10), "it rests again");
    site.clock.advance("31s");
    let record = go_on(kept).await;
    assert_eq!(record.task.status, TaskStatus::Failed);
    assert_eq!(record.steps[0].undo_attempts.0, 2);
    site.assert_invariants(&[kept]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_cannot_be_read_keeps_no_other_from_being_undone_and_parks_its_parent_at_last()
{
    let mut site = Harness::embedded(types()).start().await;
    let seats = json!([{"no": 0, "takes_ms": 3_600_000}, {"no": 1}, {"no": 2}]);
    let form = Form::to::<BookAll>()
        .field("seats", seats)
        .field("at_a_time", 3);
    let all = site.submit(form).await;
    site.serve(3);
    let lines = eventually("two that completed and one that works", || async {
        let lines = children_of(&site, all).await;
        let completed = |line: &&ChildLine| line.status == TaskStatus::Completed;
        let first = lines.first()?.status == TaskStatus::Running;
        (first && lines.iter().filter(completed).count() == 2).then_some(lines)
    })
    .await;
    let damaged = lines[2].task;
    let damage = format!("UPDATE journal SET entries = 'none' WHERE task = '{damaged}'");
    let _ = site.rows(&damage);
    client::cancel(&site.engine, all, "client")
        .await
        .expect("a cancel");
    site.all_are(TaskStatus::Cancelled, &[lines[0].task, lines[1].task])
        .await;
    let changes = async || site.history(all).await.changes.len();
    let missed = |record: &TaskRecord| record.steps[0].children.map_or(0, |it| it.missed);
    let asleep =
        |it: &TaskRecord| missed(it) > 0 && it.task.lease_owner.is_none() && !it.due_in().is_zero();
    let record = site.all("asleep", &[all], asleep).await.remove(0);
    assert_eq!(record.task.status, TaskStatus::Compensating);

    // However long it takes, a look costs two changes, and looks come later and later.
    let before = changes().await;
    while site.record(all).await.task.status == TaskStatus::Compensating {
        let seen = missed(&site.record(all).await);
        site.clock.advance("10m");
        let moved = |it: &TaskRecord| missed(it) != seen || it.task.status.is_at_rest();
        site.all("another look", &[all], moved).await;
    }
    let record = site.record(all).await;
    assert_eq!(record.task.status, TaskStatus::CompensationFailed);
    let error = record.steps[0].error.as_ref().expect("an error");
    assert!(error.message.contains("cannot be read"), "{error}");
    let looks = changes().await - before;
    assert!(looks < 100, "{looks} changes");
    site.stop().await;
}

/// A wake changes nothing but the due time: with this, none gets through.
const NO_WAKE: &str = "CREATE TRIGGER no_wake BEFORE UPDATE OF due_at ON tasks
    WHEN NEW.rev = OLD.rev BEGIN SELECT RAISE(IGNORE); END";

#[tokio::test(flavor = "multi_thread")]
async fn a_wake_that_was_lost_is_made_up_for_by_the_reconciler() {
    let site = Harness::embedded(types()).tables(NO_WAKE).start().await;
    let trip = site
        .submit(Form::to::<BookTrip>().field("seat", json!({"no": 1})))
        .await;
    let stop = CancelToken::new();
    turn(&site.engine, Host::Worker, trip, &stop).await;
    let child = children_of(&site, trip).await[0].task;
    let plan = || parents::plan(&site.engine, 10);
    assert_eq!(plan().await.expect("the plan"), [], "nothing has ended");
    turn(&site.engine, Host::Worker, child, &stop).await;
    assert_eq!(site.record(child).await.task.status, TaskStatus::Completed);
    let record = site.record(trip).await;
    assert!(!record.due_in().is_zero(), "it sleeps on");
    let around = operator::surroundings(&site.engine, &record).await;
    let why = operator::why_among(&site.engine.registry, &record, &around);
    assert_eq!(why.because[0].code, WhyCode::WakeLost, "{why:?}");
    let command = why.operator_can[0].command.as_deref();
    assert_eq!(command, Some("reconciler --once"));

    assert_eq!(plan().await.expect("the plan"), [trip]);
    let _ = site.rows("DROP TRIGGER no_wake");
    let woken = parents::run(&site.engine, vec![trip], &stop).await;
    assert_eq!(woken.expect("the store answers"), 1);
    assert_eq!(plan().await.expect("the plan"), [], "it is awake");
    site.assert_invariants(&[trip, child]).await;
    turn(&site.engine, Host::Worker, trip, &stop).await;
    assert_eq!(site.record(trip).await.task.status, TaskStatus::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_ends_between_the_look_and_the_sleep_wakes_its_parent() {
    // Looked at when the first of two had ended; the second ends before the sleep is written.
    let site = Harness::embedded(types()).start().await;
    let seats: Vec<Seat> = (0..2).map(seat).collect();
    let form = Form::to::<BookAll>()
        .field("seats", json!(seats))
        .field("at_a_time", 2);
    let all = site.submit(form).await;
    let stop = CancelToken::new();
    turn(&site.engine, Host::Worker, all, &stop).await;
    let lines = children_of(&site, all).await;
    turn(&site.engine, Host::Worker, lines[0].task, &stop).await;

    let task_type = site.engine.registry.newest("BookAll").expect("the type");
    let record = site.record(all).await;
    let claim = |draft: &mut Draft| draft.claim("slow", Duration::from_secs(60));
    let claimed = site
        .engine
        .change(Author::anyone(&site.engine.id), &task_type, record, claim)
        .await
        .expect("a claim");
    // The parent has a host now, so this end wakes nothing.
    turn(&site.engine, Host::Worker, lines[1].task, &stop).await;
    let sleep = |draft: &mut Draft| {
        draft.children_were_seen(&[(0, Some(1))]);
        draft.wait(WaitReason::Children, Duration::from_secs(3600))
    };
    site.engine
        .change(
            Author::owner(&site.engine.id),
            &task_type,
            claimed.record,
            sleep,
        )
        .await
        .expect("it sleeps");
    assert!(site.record(all).await.due_in().is_zero(), "it was woken");
    turn(&site.engine, Host::Worker, all, &stop).await;
    assert_eq!(site.record(all).await.task.status, TaskStatus::Completed);
    site.assert_invariants(&family(&site, all).await).await;
}

pub(crate) struct ChargeCard;

#[distributed_task(name = "ChargeCard", queue = "cards")]
impl ChargeCard {
    type Request = Depth;
    type Response = u32;

    #[step(1, host = "worker", undo = refund)]
    async fn charge(_ctx: &StepContext) -> StepResult<u32> {
        Ok(1)
    }

    async fn refund(_out: Option<u32>) -> UndoResult {
        Ok(())
    }

    #[step(
        2,
        host = "worker",
        no_undo = "nothing is kept",
        on_exhausted = "dead_letter"
    )]
    async fn confirm(_ctx: &StepContext) -> StepResult<u32> {
        Err(StepError::permanent("no answer"))
    }

    fn respond(charge: &u32) -> u32 {
        *charge
    }
}

pub(crate) struct Checkout;

#[distributed_task(name = "Checkout", queue = "checkouts")]
impl Checkout {
    type Request = Depth;
    type Response = u32;

    #[step(1, host = "worker")]
    fn payment(depth: &Depth) -> AwaitTask<ChargeCard> {
        let _ = depth;
        AwaitTask::of(&Depth {})
    }

    fn respond(payment: &u32) -> u32 {
        *payment
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_child_has_done_that_is_settled_by_hand_is_left_by_its_parent() {
    for (settled, residue) in [
        (SettledAs::Done, true),
        (SettledAs::NotNeeded, true),
        (SettledAs::Undone, false),
    ] {
        let types = Registry::new().with::<Checkout>().with::<ChargeCard>();
        let task = Harness::embedded(types)
            .submit(Form::to::<Checkout>())
            .await;
        let child = task.run_to_parked().await.remove(0).task.id;
        let by_hand = Resolution {
            step: None,
            settled,
            output: None,
            task: None,
            actor: "operator:kim".to_owned(),
            note: "seen to it".to_owned(),
            bulk: None,
        };
        operator::resolve(&task.engine, child, by_hand)
            .await
            .expect("accepted");
        assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
        assert_eq!(task.record().await.task.residue, residue, "{settled}");
        task.assert_invariants().await;
    }
}
