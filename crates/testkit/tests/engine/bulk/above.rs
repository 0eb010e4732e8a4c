//! Many tasks are cancelled that belong together: those above others come first, on whatever page they are.

use super::{execute, spec};
use counterstep_contracts::bulk::{BulkAction, BulkStatus, BulkView};
use counterstep_contracts::{Host, Labels, TaskId, TaskStatus};
use counterstep_kernel::bulk::{self, BulkSpec};
use counterstep_kernel::change::Author;
use counterstep_kernel::dead_letters::Selection;
use counterstep_kernel::draft::Draft;
use counterstep_kernel::ports::ChildQuery;
use counterstep_kernel::turn::turn;
use counterstep_macros::distributed_task;
use counterstep_steps::{CancelToken, ForEach, Registry, StepResult, UndoResult};
use counterstep_testkit::{Form, Harness, Site};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::time::Duration;

pub(super) struct SendParcel;

#[distributed_task(name = "SendParcel", queue = "parcels", cancellable)]
impl SendParcel {
    type Request = u32;
    type Response = u32;

    #[step(1, host = "worker", undo = call_back)]
    async fn send(number: &u32) -> StepResult<u32> {
        Ok(*number)
    }

    async fn call_back() -> UndoResult {
        Ok(())
    }

    fn respond(send: &u32) -> u32 {
        *send
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Parcels {
    numbers: Vec<u32>,
}

pub(super) struct SendAll;

#[distributed_task(name = "SendAll", queue = "all", cancellable)]
impl SendAll {
    type Request = Parcels;
    type Response = Vec<u32>;

    #[step(1, host = "worker")]
    fn parcels(all: &Parcels) -> ForEach<SendParcel> {
        ForEach::of(&all.numbers).at_a_time(500)
    }

    fn respond(parcels: &Vec<u32>) -> Vec<u32> {
        parcels.clone()
    }
}

/// Goes on whatever happens.
struct SendAllAnyway;

#[distributed_task(name = "SendAllAnyway", queue = "all")]
impl SendAllAnyway {
    type Request = Parcels;
    type Response = Vec<u32>;

    #[step(1, host = "worker")]
    fn parcels(all: &Parcels) -> ForEach<SendParcel> {
        ForEach::of(&all.numbers).at_a_time(500)
    }

    fn respond(parcels: &Vec<u32>) -> Vec<u32> {
        parcels.clone()
    }
}

/// More than a slice has.
const MANY: u32 = 250;

/// A parent that waits for `count` children, which have its label.
pub(super) async fn family(form: Form, count: u32) -> (Site, TaskId) {
    let types = Registry::new()
        .with::<SendParcel>()
        .with::<SendAll>()
        .with::<SendAllAnyway>();
    let site = Harness::embedded(types).start().await;
    let numbers: Vec<u32> = (0..count).collect();
    let form = form.field("numbers", json!(numbers));
    let parent = site.submit(form.label("batch", "7")).await;
    turn(&site.engine, Host::Worker, parent, &CancelToken::new()).await;
    let record = site.record(parent).await;
    assert_eq!(record.task.status, TaskStatus::Waiting);
    (site, parent)
}

/// The cancel of all that has the label and has not ended.
pub(super) fn all_of_the_batch() -> BulkSpec {
    let mut labels = Labels::new();
    labels.add("batch", "7").expect("a label");
    let open = TaskStatus::ALL.iter().copied();
    let open = open.filter(|status| BulkAction::Cancel.is_for(*status));
    let spec = spec(BulkAction::Cancel, &open.collect::<Vec<_>>());
    BulkSpec {
        selection: Selection {
            labels,
            ..spec.selection
        },
        ..spec
    }
}

async fn cancelled(site: &Site) -> BulkView {
    let started = bulk::start(&site.engine, all_of_the_batch()).await;
    let ended = execute(&site.engine, &started.expect("started").id).await;
    assert_eq!(ended.status, BulkStatus::Done);
    ended
}

pub(super) async fn children_of(site: &Site, parent: TaskId) -> Vec<TaskId> {
    let query = ChildQuery {
        parent,
        step: None,
        statuses: Vec::new(),
        after: None,
        limit: 1_000,
    };
    let lines = site.engine.ports.store.children(&query).await;
    let lines = lines.expect("the store answers");
    lines.into_iter().map(|line| line.task).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_above_others_is_cancelled_before_them_and_does_not_fail_by_their_end() {
    let (site, parent) = family(Form::to::<SendAll>(), MANY).await;
    // Its host has it whenever it is woken.
    let engine = site.engine.clone();
    let host = tokio::spawn(async move {
        loop {
            turn(&engine, Host::Worker, parent, &CancelToken::new()).await;
            tokio::task::yield_now().await;
        }
    });
    let ended = cancelled(&site).await;
    assert_eq!((ended.failed, ended.skipped), (0, 0), "{ended:?}");
    site.all_are(TaskStatus::Cancelled, &[parent]).await;
    host.abort();
    let children = children_of(&site, parent).await;
    assert_eq!(children.len(), MANY as usize);
    site.all_are(TaskStatus::Cancelled, &children).await;
    site.assert_invariants(&children[..3]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_is_cancelled_with_one_below_it_is_counted_once() {
    let (site, parent) = family(Form::to::<SendAll>(), MANY).await;
    // Its host is slow to hear of the cancel: it is selected still when its own page is read.
    let task_type = site.engine.registry.newest("SendAll").expect("the type");
    let claim = |draft: &mut Draft| draft.claim("slow", Duration::from_secs(600));
    let record = site.record(parent).await;
    let claimed = site
        .engine
        .change(Author::anyone(&site.engine.id), &task_type, record, claim);
    claimed.await.expect("a claim");
    let ended = cancelled(&site).await;
    let all = u64::from(MANY) + 1;
    assert_eq!((ended.done, ended.failed, ended.skipped), (all, 0, 0));
    let record = site.record(parent).await;
    assert_eq!(record.task.status, TaskStatus::Running);
    assert!(record.task.cancel_requested_at.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn those_below_a_task_that_cannot_be_cancelled_are_cancelled_all_the_same() {
    let (site, parent) = family(Form::to::<SendAllAnyway>(), MANY).await;
    let ended = cancelled(&site).await;
    let counts = (ended.done, ended.failed, ended.skipped);
    assert_eq!(counts, (u64::from(MANY), 1, 0), "{ended:?}");
    assert_eq!(ended.failures[0].task_id, parent);
    let children = children_of(&site, parent).await;
    site.all_are(TaskStatus::Cancelled, &children).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_above_others_that_is_not_selected_stays_as_it_is() {
    let (site, parent) = family(Form::to::<SendAll>(), 3).await;
    let all = all_of_the_batch();
    let of_children = BulkSpec {
        selection: Selection {
            task_type: Some("SendParcel".to_owned()),
            ..all.selection
        },
        ..all
    };
    let started = bulk::start(&site.engine, of_children).await;
    let ended = execute(&site.engine, &started.expect("started").id).await;
    assert_eq!((ended.done, ended.skipped), (3, 0));
    let record = site.record(parent).await;
    assert_eq!(record.task.cancel_requested_at, None);
}
