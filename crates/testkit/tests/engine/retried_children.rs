//! Dead letters with steps that wait for tasks: what a retry does about those tasks, what parks such a
//! task, and when it may be settled by hand.

use counterstep_contracts::{Host, SettledAs, StepStatus, TaskId, TaskStatus};
use counterstep_kernel::operator::{self, OperatorError, Resolution, Retrial};
use counterstep_kernel::ports::{ChildLine, ChildQuery};
use counterstep_kernel::record::TaskRecord;
use counterstep_kernel::turn::turn;
use counterstep_macros::distributed_task;
use counterstep_reconciler::parents;
use counterstep_steps::{
    CancelToken, ForEach, Registry, State, StepContext, StepError, StepResult, UndoResult,
};
use counterstep_testkit::{Form, Harness, Site};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

/// What fails as long as it stands here: `pay`, or a guest.
#[derive(Clone, Default)]
struct Fails(Arc<Mutex<BTreeSet<String>>>);

impl Fails {
    fn these(names: &[&str]) -> Self {
        let fails = Self::default();
        fails.set(names);
        fails
    }

    fn set(&self, names: &[&str]) {
        *self.0.lock().expect("a set") = names.iter().map(ToString::to_string).collect();
    }

    fn check(&self, name: &str) -> StepResult<()> {
        if self.0.lock().expect("a set").contains(name) {
            return Err(StepError::permanent(format_args!("{name} fails")));
        }
        Ok(())
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Guest {
    name: String,
}

/// A child: a table is booked, and the guest may say no.
struct Invite;

#[distributed_task(name = "Invite", queue = "guests")]
impl Invite {
    type Request = Guest;
    type Response = String;

    #[step(1, host = "worker", undo = give_back)]
    async fn book(_ctx: &StepContext) -> StepResult<u8> {
        Ok(1)
    }

    async fn give_back(_out: Option<u8>) -> UndoResult {
        Ok(())
    }

    #[step(2, host = "worker", no_undo = "it only asks")]
    async fn answer(guest: &Guest, fails: &State<Fails>) -> StepResult<()> {
        fails.check(&guest.name)
    }

    fn respond(guest: &Guest) -> String {
        guest.name.clone()
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Party {
    guests: Vec<Guest>,
    within: String,
}

/// A parent: while it waits for its guests, paying may park it.
struct Gala;

#[distributed_task(name = "Gala", queue = "galas")]
impl Gala {
    type Request = Party;
    type Response = Vec<String>;

    #[step(1, host = "worker", group = "both")]
    fn guests(party: &Party) -> ForEach<Invite> {
        ForEach::of(&party.guests).within(&party.within)
    }

    #[step(
        2,
        host = "worker",
        group = "both",
        no_undo = "paid for good",
        on_exhausted = "dead_letter"
    )]
    async fn pay(fails: &State<Fails>) -> StepResult<()> {
        fails.check("pay")
    }

    #[step(3, host = "worker", no_undo = "nothing is kept")]
    async fn open(fails: &State<Fails>) -> StepResult<()> {
        fails.check("open")
    }

    fn respond(guests: &Vec<String>) -> Vec<String> {
        guests.clone()
    }
}

async fn site(fails: &Fails) -> Site {
    let types = Registry::new().with::<Gala>().with::<Invite>();
    Harness::embedded(types)
        .provide(fails.clone())
        .start()
        .await
}

/// A gala with two guests, after its first turn.
async fn gala(site: &Site, within: &str) -> TaskId {
    let guests = json!([{"name": "ann"}, {"name": "bob"}]);
    let form = Form::to::<Gala>()
        .field("guests", guests)
        .field("within", within);
    let gala = site.submit(form).await;
    go_on(site, gala).await;
    gala
}

async fn go_on(site: &Site, task: TaskId) -> TaskRecord {
    turn(&site.engine, Host::Worker, task, &CancelToken::new()).await;
    site.record(task).await
}

async fn children(site: &Site, parent: TaskId) -> Vec<ChildLine> {
    let query = ChildQuery {
        parent,
        step: None,
        statuses: Vec::new(),
        after: None,
        limit: 100,
    };
    let children = site.engine.ports.store.children(&query).await;
    children.expect("the store answers")
}

async fn stand(site: &Site, parent: TaskId) -> Vec<(u32, TaskStatus)> {
    let lines = children(site, parent).await.into_iter();
    lines.map(|line| (line.no, line.status)).collect()
}

async fn assert_invariants(site: &Site, parent: TaskId) {
    let mut family = vec![parent];
    family.extend(children(site, parent).await.iter().map(|line| line.task));
    site.assert_invariants(&family).await;
}

async fn retry(site: &Site, task: TaskId) {
    let retrial = Retrial {
        direction: None,
        edit: None,
        actor: "operator:kim".to_owned(),
        note: "it works again".to_owned(),
        bulk: None,
    };
    let answer = operator::retry(&site.engine, task, retrial).await;
    assert_eq!(answer.expect("accepted").status, TaskStatus::Dispatched);
}

/// A dead letter of which one child has completed, and one has failed meanwhile.
async fn dead_letter(site: &Site, fails: &Fails) -> TaskId {
    fails.set(&["pay", "bob"]);
    let gala = gala(site, "90d").await;
    let parked = site.record(gala).await;
    assert_eq!(parked.task.status, TaskStatus::DeadLettered);
    for line in children(site, gala).await {
        go_on(site, line.task).await;
    }
    assert_eq!(
        stand(site, gala).await,
        [(0, TaskStatus::Completed), (1, TaskStatus::Failed)]
    );
    gala
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_replaces_the_task_that_did_not_complete_and_keeps_the_one_that_did() {
    let fails = Fails::default();
    let mut site = site(&fails).await;
    let gala = dead_letter(&site, &fails).await;
    fails.set(&[]);
    retry(&site, gala).await;
    site.serve(2);
    let [record] = site
        .all_are(TaskStatus::Completed, &[gala])
        .await
        .try_into()
        .expect("one");
    assert_eq!(record.task.response, Some(json!(["ann", "bob"])));
    assert_eq!(
        stand(&site, gala).await,
        [
            (0, TaskStatus::Completed),
            (1, TaskStatus::Failed),
            (10_001, TaskStatus::Completed)
        ]
    );
    let history = site.history(gala).await;
    let submitted = history.audit.iter().map(|row| &row.entry);
    let submitted: Vec<(&Value, &Value, &Value)> = submitted
        .filter(|entry| entry.event == "children_submitted")
        .map(|entry| &entry.details)
        .map(|it| (&it["from"], &it["count"], &it["generation"]))
        .collect();
    assert_eq!(
        submitted,
        [
            (&json!(0), &json!(2), &Value::Null),
            (&json!(1), &json!(1), &json!(1))
        ]
    );
    assert_invariants(&site, gala).await;
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_before_and_after_a_retry_are_undone_with_their_parent() {
    let fails = Fails::default();
    let mut site = site(&fails).await;
    let gala = dead_letter(&site, &fails).await;
    fails.set(&["open"]);
    retry(&site, gala).await;
    site.serve(2);
    site.all_are(TaskStatus::Failed, &[gala]).await;
    assert_eq!(
        stand(&site, gala).await,
        [
            (0, TaskStatus::Cancelled),
            (1, TaskStatus::Failed),
            (10_001, TaskStatus::Cancelled)
        ]
    );
    assert_invariants(&site, gala).await;
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_fails_once_more_after_a_retry_fails_its_parent() {
    let fails = Fails::default();
    let mut site = site(&fails).await;
    let gala = dead_letter(&site, &fails).await;
    fails.set(&["bob"]);
    retry(&site, gala).await;
    site.serve(2);
    let record = site.all_are(TaskStatus::Failed, &[gala]).await.remove(0);
    let children = children(&site, gala).await;
    let again = children.last().expect("another one").task;
    assert_eq!(
        record.task.failure.expect("a failure").message,
        format!("1 of its 2 tasks did not complete: task {again} is failed: bob fails")
    );
    assert_invariants(&site, gala).await;
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_gives_a_step_that_waits_for_tasks_its_time_anew() {
    let fails = Fails::these(&["pay"]);
    let mut site = site(&fails).await;
    let gala = gala(&site, "1h").await;
    site.clock.advance("2h");
    fails.set(&[]);
    retry(&site, gala).await;
    site.serve(2);
    site.all_are(TaskStatus::Completed, &[gala]).await;
    assert_invariants(&site, gala).await;
    site.stop().await;
}

fn resolution(step: Option<&str>, settled: SettledAs) -> Resolution {
    Resolution {
        step: step.map(str::to_owned),
        settled,
        output: None,
        task: None,
        actor: "operator:kim".to_owned(),
        note: "seen to it".to_owned(),
        bulk: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_not_settled_by_hand_while_tasks_that_it_has_submitted_go_on() {
    let fails = Fails::these(&["pay"]);
    let site = site(&fails).await;
    let gala = gala(&site, "90d").await;
    let lines = children(&site, gala).await;
    go_on(&site, lines[0].task).await;
    for settled in [SettledAs::Undone, SettledAs::Skipped, SettledAs::Done] {
        let refused = operator::resolve(&site.engine, gala, resolution(None, settled)).await;
        let Err(OperatorError::NotSettleable(why)) = refused else {
            panic!("{settled}: {refused:?}");
        };
        assert!(why.contains(&lines[1].task.to_string()), "{why}");
        assert!(!why.contains(&lines[0].task.to_string()), "{why}");
    }
    assert_eq!(
        site.record(gala).await.task.status,
        TaskStatus::DeadLettered
    );

    // Once they have ended, it is.
    go_on(&site, lines[1].task).await;
    let answer = operator::resolve(&site.engine, gala, resolution(None, SettledAs::Skipped)).await;
    assert_eq!(answer.expect("accepted").status, TaskStatus::Resolved);
    assert_invariants(&site, gala).await;
}

/// A gala whose children have completed, of which this one cannot be read. Gives it once it is parked, and
/// after how many minutes that was.
async fn parked_by_damage(site: &Site, within: &str) -> (TaskId, TaskId, u32) {
    let gala = gala(site, within).await;
    let lines = children(site, gala).await;
    for line in &lines {
        go_on(site, line.task).await;
    }
    let damaged = lines[1].task;
    let damage = format!("UPDATE journal SET entries = 'x' || entries WHERE task = '{damaged}'");
    let _ = site.rows(&damage);
    for minutes in 0..600 {
        if go_on(site, gala).await.task.status.is_parked() {
            return (gala, damaged, minutes);
        }
        let woken = parents::plan(&site.engine, 10).await.expect("the plan");
        assert_eq!(woken, [], "it looks again by itself");
        site.clock.advance("1m");
    }
    panic!("it waits without end");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completed_task_that_cannot_be_read_parks_its_parent_which_goes_on_once_it_is_mended() {
    let fails = Fails::default();
    let mut site = site(&fails).await;
    let (gala, damaged, minutes) = parked_by_damage(&site, "90d").await;
    assert!((60..300).contains(&minutes), "after {minutes} minutes");
    let record = site.record(gala).await;
    assert_eq!(record.task.status, TaskStatus::DeadLettered);
    assert_eq!(record.steps[0].status, StepStatus::Failed);
    let failure = record.task.failure.expect("a failure");
    assert_eq!(failure.step.as_deref(), Some("guests"));
    assert_eq!(failure.class, "unreadable");
    assert!(
        failure.message.contains(&damaged.to_string()),
        "{failure:?}"
    );

    let mend = format!("UPDATE journal SET entries = substr(entries, 2) WHERE task = '{damaged}'");
    let _ = site.rows(&mend);
    retry(&site, gala).await;
    site.serve(2);
    let record = site.all_are(TaskStatus::Completed, &[gala]).await.remove(0);
    assert_eq!(record.task.response, Some(json!(["ann", "bob"])));
    assert_eq!(children(&site, gala).await.len(), 2, "both are kept");
    assert_invariants(&site, gala).await;
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completed_task_that_cannot_be_read_is_waited_for_no_longer_than_the_step_may_take() {
    let site = site(&Fails::default()).await;
    let (gala, _, minutes) = parked_by_damage(&site, "20m").await;
    assert!((20..40).contains(&minutes), "after {minutes} minutes");
    let failure = site.record(gala).await.task.failure;
    assert_eq!(failure.expect("a failure").class, "unreadable");
}
