//! Types whose steps submit tasks, as their authors test them: the harness gives turns to the whole
//! family, answers the signals of children, strikes their steps, and names what waits for a person.

use counterstep_contracts::SettledAs;
use counterstep_contracts::{Outcome, StepStatus, TaskStatus, WaitReason};
use counterstep_kernel::engine::faults::{Fault, FaultKind};
use counterstep_kernel::operator::{self, Resolution};
use counterstep_kernel::record::{AttemptRow, TaskRecord};
use counterstep_macros::distributed_task;
use counterstep_steps::contracts::FileName;
use counterstep_steps::{
    AwaitSignal, AwaitTask, BranchOutcome, Branches, ChildOutcome, ForEach, Registry, RetryPolicy,
    Sleep, Slept, Sql, StepContext, StepError, StepResult, StoredFile, UndoResult,
};
use counterstep_testkit::clock::{until_works, work_for};
use counterstep_testkit::sweep::{self, Surroundings};
use counterstep_testkit::{Form, Harness, TestTask};
use futures::StreamExt;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

const TABLES: &str = "CREATE TABLE booked (effect TEXT NOT NULL);";

const ONCE_MORE: RetryPolicy = RetryPolicy::constant("20ms").max_retries(1);

fn book(ctx: &StepContext) {
    let text = "INSERT INTO booked VALUES ($1)";
    ctx.in_transaction(Sql::new(text).bind(ctx.step_key()));
}

fn unbook(ctx: &StepContext) {
    let text = "DELETE FROM booked WHERE effect = $1";
    ctx.in_transaction(Sql::new(text).bind(ctx.step_key()));
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Ticket {
    /// How long it takes, by the test's clock.
    #[serde(default)]
    takes_ms: u64,
}

/// A child that writes to a table and stores an object.
struct PrintTicket;

#[distributed_task(name = "PrintTicket", queue = "tickets")]
impl PrintTicket {
    type Request = Ticket;
    type Response = StoredFile;

    #[step(1, host = "worker", undo = strike_out, retry = ONCE_MORE)]
    async fn note(ctx: &StepContext, ticket: &Ticket) -> StepResult<u8> {
        work_for(ctx.task_id(), Duration::from_millis(ticket.takes_ms)).await;
        book(ctx);
        Ok(1)
    }

    async fn strike_out(ctx: &StepContext, out: Option<u8>) -> UndoResult {
        if out.is_some() {
            unbook(ctx);
        }
        Ok(())
    }

    #[step(2, host = "worker", undo = shred)]
    async fn print(ctx: &StepContext) -> StepResult<StoredFile> {
        let body = futures::stream::once(async { Ok("a ticket".into()) }).boxed();
        let name = FileName::parse("ticket").expect("a name");
        ctx.objects()
            .put("tickets", &name, "text/plain", body)
            .await
    }

    async fn shred(ctx: &StepContext) -> UndoResult {
        ctx.objects().delete_all_of_step().await.map(drop)
    }

    fn respond(print: &StoredFile) -> StoredFile {
        print.clone()
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Guide {
    within: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Consent {
    by: String,
}

/// A child that sleeps, and then waits for a person.
struct AskGuide;

#[distributed_task(name = "AskGuide", queue = "guides")]
impl AskGuide {
    type Request = Guide;
    type Response = String;

    #[step(1, host = "worker")]
    fn until_morning(_guide: &Guide) -> Sleep {
        Sleep::for_("8h")
    }

    #[step(2, host = "worker")]
    fn consent(guide: &Guide, until_morning: &Slept) -> AwaitSignal<Consent> {
        let _ = until_morning;
        AwaitSignal::within(&guide.within)
    }

    #[step(3, host = "worker", undo = send_home)]
    async fn hire(ctx: &StepContext, consent: &Consent) -> StepResult<String> {
        book(ctx);
        Ok(consent.by.clone())
    }

    async fn send_home(ctx: &StepContext, out: Option<String>) -> UndoResult {
        if out.is_some() {
            unbook(ctx);
        }
        Ok(())
    }

    fn respond(hire: &String) -> String {
        hire.clone()
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Tour {
    tickets: Vec<Ticket>,
    guide: Guide,
}

/// One list, one other task, and a step behind both.
struct PlanTour;

#[distributed_task(name = "PlanTour", queue = "tours")]
impl PlanTour {
    type Request = Tour;
    type Response = String;

    #[step(1, host = "worker")]
    fn tickets(tour: &Tour) -> ForEach<PrintTicket> {
        ForEach::of(&tour.tickets).at_a_time(2)
    }

    #[step(2, host = "worker")]
    fn guide(tour: &Tour) -> AwaitTask<AskGuide> {
        AwaitTask::of(&tour.guide)
    }

    #[step(3, host = "worker", undo = cancel_it)]
    async fn announce(
        ctx: &StepContext,
        tickets: &Vec<StoredFile>,
        guide: &String,
    ) -> StepResult<String> {
        book(ctx);
        Ok(format!("{} with {guide}", tickets.len()))
    }

    async fn cancel_it(ctx: &StepContext, out: Option<String>) -> UndoResult {
        if out.is_some() {
            unbook(ctx);
        }
        Ok(())
    }

    fn respond(announce: &String) -> String {
        announce.clone()
    }
}

/// Has children of children.
struct PlanSeason;

#[distributed_task(name = "PlanSeason", queue = "seasons")]
impl PlanSeason {
    type Request = Tour;
    type Response = String;

    #[step(1, host = "worker")]
    fn tour(season: &Tour) -> AwaitTask<PlanTour> {
        AwaitTask::of(season)
    }

    #[step(2, host = "worker", no_undo = "nothing is kept")]
    async fn check(tour: &String) -> StepResult<String> {
        Ok(tour.clone())
    }

    fn respond(check: &String) -> String {
        check.clone()
    }
}

/// Branches, of types that only its function names.
struct FindAnything;

#[distributed_task(name = "FindAnything", queue = "anything")]
impl FindAnything {
    type Request = Tour;
    type Response = usize;

    #[step(1, host = "worker")]
    fn branches(tour: &Tour) -> Branches {
        Branches::new()
            .with::<PrintTicket>(&tour.tickets[0])
            .with::<AskGuide>(&tour.guide)
            .any()
    }

    #[step(2, host = "worker", no_undo = "nothing is kept")]
    async fn count(branches: &Vec<BranchOutcome>) -> StepResult<usize> {
        Ok(branches
            .iter()
            .filter(|branch| branch.outcome.response().is_some())
            .count())
    }

    fn respond(count: &usize) -> usize {
        *count
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Depth {
    left: u8,
}

/// Awaits itself, a few times.
struct GoDown;

#[distributed_task(name = "GoDown", queue = "down")]
impl GoDown {
    type Request = Depth;
    type Response = u8;

    #[step(1, host = "worker")]
    fn further(depth: &Depth) -> ForEach<GoDown> {
        let further = depth.left.checked_sub(1).map(|left| Depth { left });
        ForEach::of(&further)
    }

    #[step(2, host = "worker", undo = back, retry = ONCE_MORE)]
    async fn dig(ctx: &StepContext, depth: &Depth, further: &Vec<u8>) -> StepResult<u8> {
        let _ = further;
        book(ctx);
        Ok(depth.left)
    }

    async fn back(ctx: &StepContext, out: Option<u8>) -> UndoResult {
        if out.is_some() {
            unbook(ctx);
        }
        Ok(())
    }

    fn respond(dig: &u8) -> u8 {
        *dig
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Parcel {}

/// Cannot be undone.
struct Post;

#[distributed_task(name = "Post", queue = "posts")]
impl Post {
    type Request = Parcel;
    type Response = u8;

    #[step(1, host = "worker", undo = call_back)]
    async fn send(_parcel: &Parcel) -> StepResult<u8> {
        Ok(1)
    }

    async fn call_back(_out: Option<u8>) -> UndoResult {
        Err(StepError::permanent("it is on its way"))
    }

    fn respond(send: &u8) -> u8 {
        *send
    }
}

/// Fails behind its child.
struct Sell;

#[distributed_task(name = "Sell", queue = "sales")]
impl Sell {
    type Request = Parcel;
    type Response = u8;

    #[step(1, host = "worker")]
    fn post(parcel: &Parcel) -> AwaitTask<Post> {
        AwaitTask::of(parcel)
    }

    #[step(2, host = "worker", no_undo = "nothing is done")]
    async fn charge(_post: &u8) -> StepResult<u8> {
        Err(StepError::permanent("the card is blocked"))
    }

    fn respond(charge: &u8) -> u8 {
        *charge
    }
}

fn types() -> Registry {
    Registry::new()
        .with::<PrintTicket>()
        .with::<AskGuide>()
        .with::<PlanTour>()
        .with::<PlanSeason>()
        .with::<FindAnything>()
        .with::<GoDown>()
        .with::<Post>()
        .with::<Sell>()
}

fn harness() -> Harness {
    Harness::embedded(types()).tables(TABLES)
}

fn with_tickets(form: Form, tickets: usize) -> Form {
    form.field("tickets", json!(vec![json!({}); tickets]))
        .field("guide", json!({"within": "72h"}))
}

fn unanswered() -> Form {
    with_tickets(Form::to::<PlanTour>(), 3)
}

fn tour() -> Form {
    unanswered().answer("consent", json!({"by": "anna"}))
}

fn of_type<'a>(family: &'a [TaskRecord], name: &str) -> Vec<&'a TaskRecord> {
    let family = family.iter();
    family
        .filter(|record| record.task.task_type == name)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_family_runs_to_rest_and_its_signals_are_answered() {
    let form = with_tickets(Form::to::<PlanSeason>(), 3);
    let form = form.answer("consent", json!({"by": "anna"}));
    let task = harness().submit(form).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    assert_eq!(
        task.record().await.task.response,
        Some(json!("3 with anna"))
    );
    let family = task.family().await;
    assert_eq!(family[0].task.id, task.id);
    let count = |name: &str| of_type(&family, name).len();
    assert_eq!(
        (family.len(), count("PlanTour"), count("PrintTicket")),
        (6, 1, 3)
    );
    let waited = of_type(&family, "AskGuide")[0];
    let slept = waited.task.finished_at.expect("an end").0 - waited.task.created_at.0;
    assert!(
        slept < 9 * 3_600_000_000,
        "only its sleep was passed: {slept}"
    );
    task.assert_invariants().await;
    task.assert_no_orphans().await;
    assert_eq!(task.objects().await.len(), 3, "of three children");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_deadline_of_a_childs_signal_passes_where_the_form_says_so() {
    for form in [
        unanswered().never_answer("consent"),
        unanswered().answer_late("consent", json!({"by": "carla"})),
    ] {
        let task = harness().submit(form).await;
        assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
        let failure = task.record().await.task.failure.expect("a failure");
        assert!(
            failure.message.contains("no signal came within"),
            "{}",
            failure.message
        );
        task.assert_invariants().await;
        task.assert_no_objects().await;
        assert_eq!(task.rows("SELECT * FROM booked"), Vec::<Value>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_child_that_waits_takes_an_answer_of_its_own() {
    let form = Form::to::<AskAll>()
        .field("guides", json!(vec![json!({"within": "72h"}); 3]))
        .answer("consent", json!({"by": "anna"}))
        .answer("consent", json!({"by": "ben"}))
        .never_answer("consent");
    let types = Registry::new().with::<AskAll>().with::<AskGuide>();
    let task = Harness::embedded(types).tables(TABLES).submit(form).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    assert_eq!(
        task.record().await.task.response,
        Some(json!(["anna", "ben"]))
    );
    task.assert_invariants().await;
}

#[derive(Debug, Serialize, Deserialize)]
struct Guides {
    guides: Vec<Guide>,
}

/// Takes those that consent.
struct AskAll;

#[distributed_task(name = "AskAll", queue = "all")]
impl AskAll {
    type Request = Guides;
    type Response = Vec<String>;

    #[step(1, host = "worker")]
    fn asked(guides: &Guides) -> counterstep_steps::EachOutcome<AskGuide> {
        ForEach::of(&guides.guides).at_a_time(1).outcomes()
    }

    fn respond(asked: &Vec<ChildOutcome<String>>) -> Vec<String> {
        asked
            .iter()
            .filter_map(ChildOutcome::response)
            .cloned()
            .collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_waits_where_no_child_can_go_on() {
    let task = harness().submit(unanswered()).await;
    let record = task.run_to_wait().await;
    assert_eq!(record.task.waiting, Some(WaitReason::Children));
    let family = task.family().await;
    assert_eq!(of_type(&family, "PrintTicket").len(), 3);
    let asked = of_type(&family, "AskGuide");
    assert_eq!(asked[0].task.waiting, Some(WaitReason::Timer));
}

#[tokio::test(flavor = "multi_thread")]
async fn children_take_their_time_under_the_clock_of_the_harness() {
    let form = Form::to::<PlanTour>()
        .field("tickets", json!([{"takes_ms": 1_500}]))
        .field("guide", json!({"within": "72h"}))
        .answer("consent", json!({"by": "anna"}));
    let task = harness().submit(form).await;
    let tick = async {
        let child = counterstep_testkit::many_tasks::eventually("the child", || async {
            task.family().await.get(1).map(|record| record.task.id)
        })
        .await;
        until_works(child).await;
        task.clock.advance("1500ms");
    };
    let (status, ()) = futures::join!(task.run_to_rest(), tick);
    assert_eq!(status, TaskStatus::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_lost_in_a_child_is_made_up_for() {
    for harness in [
        harness().crash_at("print"),
        harness().crash_before("hire"),
        harness().fail_at("announce").crash_in_undo_of("print"),
    ] {
        let task = harness.submit(tour()).await;
        let status = task.run_to_rest().await;
        let family = task.family().await;
        let mut in_doubt = 0;
        for record in &family {
            let history = task.engine.ports.store.history(record.task.id).await;
            let attempts = history.expect("the store answers").attempts;
            let lost = |row: &&AttemptRow| row.outcome == Some(Outcome::InDoubt);
            in_doubt += attempts.iter().filter(lost).count();
            assert!(in_doubt == 0 || record.task.id != task.id, "not in a child");
        }
        assert_eq!(in_doubt, 1);
        if status == TaskStatus::Completed {
            assert_eq!(task.rows("SELECT * FROM booked").len(), 5);
        } else {
            assert_eq!(status, TaskStatus::Failed);
            task.assert_no_objects().await;
        }
        task.assert_invariants().await;
        task.assert_no_orphans().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[should_panic(expected = "the undo of `send` gave up: it is on its way")]
async fn a_child_that_waits_for_a_person_is_named_at_once() {
    let task = harness().submit(Form::to::<Sell>()).await;
    task.run_to_rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_family_goes_on_once_a_person_has_decided() {
    let begun = Instant::now();
    let task = harness().submit(Form::to::<Sell>()).await;
    let parked = task.run_to_parked().await;
    assert!(begun.elapsed() < Duration::from_secs(30), "without a limit");
    let [child] = &parked[..] else {
        panic!("{parked:?}")
    };
    assert_eq!(child.task.status, TaskStatus::CompensationFailed);
    assert_eq!(task.record().await.task.status, TaskStatus::Compensating);
    task.assert_invariants().await;
    let resolution = Resolution {
        bulk: None,
        step: Some("send".to_owned()),
        actor: "operator:kim".to_owned(),
        note: "the receiver sends it back".to_owned(),
        settled: SettledAs::Undone,
        output: None,
        task: None,
    };
    operator::resolve(&task.engine, child.task.id, resolution)
        .await
        .expect("accepted");
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    assert_eq!(task.record().await.steps[0].status, StepStatus::Compensated);
    task.assert_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_strikes_the_step_of_a_child_by_its_name() {
    let fault = Fault::at("print", FaultKind::FailAfter);
    let task = harness().fault(fault.clone()).submit(tour()).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    assert!(fault.struck() > 0);
    task.assert_invariants().await;
    task.assert_no_orphans().await;
    task.assert_no_objects().await;
}

/// What children have written to a table is there where the task has completed, else gone.
struct Booked {
    rows: usize,
}

impl Surroundings for Booked {
    fn around(&self, harness: Harness) -> Harness {
        harness.tables(TABLES)
    }

    fn assert_after(&self, task: &TestTask, status: TaskStatus) {
        let completed = status == TaskStatus::Completed;
        let expected = if completed { self.rows } else { 0 };
        let rows = task.rows("SELECT * FROM booked");
        assert_eq!(rows.len(), expected, "booked by a task that is {status}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_strikes_the_steps_of_children_in_one_line() {
    sweep::every_fault_in(harness, tour).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_in_children_of_children_leaves_a_clean_slate() {
    let season = || {
        let form = with_tickets(Form::to::<PlanSeason>(), 1);
        form.answer("consent", json!({"by": "anna"}))
    };
    sweep::every_fault_amid(Arc::new(Booked { rows: 3 }), types, season).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn types_that_only_a_function_names_are_struck_too() {
    let anything = || {
        let form = with_tickets(Form::to::<FindAnything>(), 1);
        form.answer("consent", json!({"by": "anna"}))
    };
    sweep::every_fault_in(harness, anything).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_that_awaits_itself_is_swept_once() {
    let down = || Form::to::<GoDown>().field("left", 2);
    sweep::every_fault_amid(Arc::new(Booked { rows: 3 }), types, down).await;
}

/// Its undo leaves what it has done.
struct Forget;

#[distributed_task(name = "Forget", queue = "forgets")]
impl Forget {
    type Request = Parcel;
    type Response = u8;

    #[step(1, host = "worker", undo = nothing)]
    async fn write(ctx: &StepContext) -> StepResult<u8> {
        book(ctx);
        Ok(1)
    }

    async fn nothing(_out: Option<u8>) -> UndoResult {
        Ok(())
    }

    fn respond(write: &u8) -> u8 {
        *write
    }
}

/// Has a step behind the child.
struct Rely;

#[distributed_task(name = "Rely", queue = "relies")]
impl Rely {
    type Request = Parcel;
    type Response = u8;

    #[step(1, host = "worker")]
    fn forget(parcel: &Parcel) -> AwaitTask<Forget> {
        AwaitTask::of(parcel)
    }

    #[step(2, host = "worker", no_undo = "nothing is kept")]
    async fn go_on(forget: &u8) -> StepResult<u8> {
        Ok(*forget)
    }

    fn respond(go_on: &u8) -> u8 {
        *go_on
    }
}

#[tokio::test(flavor = "multi_thread")]
#[should_panic(expected = "booked by a task that is failed")]
async fn a_sweep_finds_a_child_whose_undo_does_nothing() {
    let types = || Registry::new().with::<Forget>().with::<Rely>();
    let form = || Form::to::<Rely>();
    sweep::every_fault_amid(Arc::new(Booked { rows: 1 }), types, form).await;
}

/// Has no code of its own.
struct PassOn;

#[distributed_task(name = "PassOn", queue = "passes")]
impl PassOn {
    type Request = Parcel;
    type Response = u8;

    #[step(1, host = "worker")]
    fn forget(parcel: &Parcel) -> AwaitTask<Forget> {
        AwaitTask::of(parcel)
    }

    fn respond(forget: &u8) -> u8 {
        *forget
    }
}

/// Surroundings that are never as they must be after a task that failed.
struct Picky;

impl Surroundings for Picky {
    fn around(&self, harness: Harness) -> Harness {
        harness.tables(TABLES)
    }

    fn assert_after(&self, _: &TestTask, status: TaskStatus) {
        assert_eq!(status, TaskStatus::Completed, "not as it must be");
    }
}

#[tokio::test(flavor = "multi_thread")]
// Which of the runs ends first is a matter of chance.
#[should_panic(expected = "write of Forget")]
async fn a_panic_of_a_sweep_names_the_type_of_a_child() {
    let types = || Registry::new().with::<Forget>().with::<PassOn>();
    let form = || Form::to::<PassOn>();
    sweep::every_fault_amid(Arc::new(Picky), types, form).await;
}
