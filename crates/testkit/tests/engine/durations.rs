//! How long tasks and their steps took, and how many ended or were parked: counted once each, by tenant, type and hour, whichever
//! process counts; from the change that started an attempt to the one that ended it.

use crate::errand::{Errand, only};
use counterstep_contracts::durations::TypeDurations;
use counterstep_contracts::{Host, TaskId, TaskStatus, Tenant};
use counterstep_kernel::Engine;
use counterstep_kernel::operator::{self, Retrial};
use counterstep_kernel::ports::{
    Document, DocumentChange, DocumentKind, DocumentQuery, DocumentWrite,
};
use counterstep_kernel::status::durations::{DurationsOf, count_durations, durations};
use counterstep_kernel::turn::{TurnEnd, turn};
use counterstep_macros::distributed_task;
use counterstep_steps::{CancelToken, StepContext, StepError, StepResult};
use counterstep_testkit::clock::{until_works, work_for};
use counterstep_testkit::{Form, Harness, Site};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, Serialize, Deserialize)]
struct Leg {
    seconds: u64,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Loaded(u32);

struct Haul;

#[distributed_task(name = "Haul", queue = "hauls")]
impl Haul {
    type Request = Leg;
    type Response = u32;

    #[step(1, host = "worker", no_undo = "test")]
    async fn load(_ctx: &StepContext) -> StepResult<Loaded> {
        Ok(Loaded(1))
    }

    #[step(2, host = "worker", no_undo = "test", on_exhausted = "dead_letter")]
    async fn drive(ctx: &StepContext, leg: &Leg, loaded: &Loaded) -> StepResult<u32> {
        if leg.seconds == 0 {
            return Err(StepError::permanent("no fuel"));
        }
        work_for(ctx.task_id(), Duration::from_secs(leg.seconds)).await;
        Ok(loaded.0)
    }

    fn respond(drive: &u32) -> u32 {
        *drive
    }
}

/// A task that has driven for this time.
async fn driven(site: &Site, tenant: &str, seconds: u64) -> TaskId {
    driven_as(site, Form::new().tenant(tenant), seconds).await
}

async fn driven_as(site: &Site, form: Form, seconds: u64) -> TaskId {
    let form = form.field("seconds", seconds);
    let id = site.submit(form).await;
    let shutdown = CancelToken::new();
    let works = async {
        until_works(id).await;
        site.clock.advance_by(Duration::from_secs(seconds));
    };
    let (end, ()) = futures::join!(turn(&site.engine, Host::Worker, id, &shutdown), works);
    assert_eq!(end, TurnEnd::Rests(TaskStatus::Completed));
    id
}

/// Works at a task until it is parked.
async fn park(site: &Site, task: TaskId) {
    let end = turn(&site.engine, Host::Worker, task, &CancelToken::new()).await;
    assert_eq!(end, TurnEnd::Rests(TaskStatus::DeadLettered));
}

async fn parked(site: &Site, tenant: &str) -> TaskId {
    let form = Form::new().field("seconds", 0).tenant(tenant);
    let id = site.submit(form).await;
    park(site, id).await;
    id
}

async fn retry(site: &Site, task: TaskId) {
    let retrial = Retrial {
        direction: None,
        edit: None,
        actor: "operator:kim".to_owned(),
        note: "there is fuel again".to_owned(),
        bulk: None,
    };
    let answer = operator::retry(&site.engine, task, retrial).await;
    assert_eq!(answer.expect("accepted").status, TaskStatus::Dispatched);
}

fn of_haul(tenant: &Tenant) -> DurationsOf<'_> {
    DurationsOf {
        tenant,
        task_type: "Haul",
        since: None,
        until: None,
        took: None,
        label: None,
    }
}

async fn seen(site: &Site, tenant: &str) -> TypeDurations {
    let tenant = Tenant(tenant.to_owned());
    let found = durations(&site.engine.ports.store, &of_haul(&tenant)).await;
    found.expect("they are read")
}

async fn count(engine: &Engine) {
    let counted = count_durations(engine, &CancelToken::new()).await;
    counted.expect("the store answers");
}

/// How many tasks of `Haul` are counted as ended.
async fn counted(site: &Site, tenant: &str) -> u64 {
    seen(site, tenant).await.ended.values().sum()
}

/// Until all see what has ended.
fn later(site: &Site) {
    site.clock.advance("61s");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_task_is_counted_once_with_its_steps_whichever_process_counts() {
    let site = Harness::embedded(only::<Haul>()).start().await;
    let mut ids = Vec::new();
    for seconds in [2, 8, 4] {
        ids.push(driven(&site, "acme", seconds).await);
    }
    assert_eq!(seen(&site, "acme").await.counted_until, None);
    // What ended a moment ago may not be seen by all yet.
    count(&site.engine).await;
    assert_eq!(counted(&site, "acme").await, 0);
    driven(&site, "umbra", 600).await;
    later(&site);
    futures::join!(count(&site.engine), count(&site.engine));
    count(&site.engine).await;

    let found = seen(&site, "acme").await;
    assert_eq!(found.ended, [(TaskStatus::Completed, 3)].into());
    let tasks = found.tasks.expect("they completed");
    assert_eq!(tasks.count, 3);
    assert!((3_800..8_000).contains(&tasks.p50_ms), "{tasks:?}");
    assert!(found.counted_until.is_some());
    let [drive, load] = &found.steps[..] else {
        panic!("{found:?}");
    };
    assert_eq!((&*drive.step, drive.took.count), ("drive", 3));
    assert_eq!((&*load.step, load.took.count), ("load", 3));
    assert_eq!(drive.slowest, ids[1]);
    assert!((8_000..16_000).contains(&drive.max_ms), "{drive:?}");
    assert!((3_800..8_000).contains(&drive.took.p50_ms), "{drive:?}");
    assert!(load.max_ms < 2_000, "{load:?}");
    let by_hour: u64 = found.hours.iter().flat_map(|it| it.ended.values()).sum();
    assert_eq!(by_hour, 3);
    let theirs = seen(&site, "umbra").await;
    assert_eq!(theirs.ended, [(TaskStatus::Completed, 1)].into());

    let acme = Tenant("acme".to_owned());
    let share = async |seconds: u64| {
        let query = DurationsOf {
            took: Some(Duration::from_secs(seconds)),
            ..of_haul(&acme)
        };
        let found = durations(&site.engine.ports.store, &query).await;
        found.expect("they are read").slower_than
    };
    assert_eq!(share(0).await, Some(0));
    assert_eq!(share(100).await, Some(100));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_counts_each_time_it_is_found_parked() {
    let site = Harness::embedded(only::<Haul>()).start().await;
    let first = parked(&site, "acme").await;
    parked(&site, "acme").await;
    parked(&site, "umbra").await;
    // What was parked a moment ago may not be seen by all yet.
    count(&site.engine).await;
    assert_eq!(counted(&site, "acme").await, 0);
    later(&site);
    futures::join!(count(&site.engine), count(&site.engine));
    count(&site.engine).await;
    let found = seen(&site, "acme").await;
    assert_eq!(found.ended, [(TaskStatus::DeadLettered, 2)].into());
    assert_eq!((found.tasks, &*found.steps), (None, &[][..]));
    let by_hour: u64 = found.hours.iter().flat_map(|it| it.ended.values()).sum();
    assert_eq!(by_hour, 2);

    retry(&site, first).await;
    later(&site);
    count(&site.engine).await;
    assert_eq!(counted(&site, "acme").await, 2, "it is under way");
    park(&site, first).await;
    // No pass has seen it before it was retried once more.
    retry(&site, first).await;
    park(&site, first).await;
    driven(&site, "acme", 2).await;
    later(&site);
    count(&site.engine).await;
    let found = seen(&site, "acme").await;
    let expected = [(TaskStatus::Completed, 1), (TaskStatus::DeadLettered, 3)];
    assert_eq!(found.ended, expected.into());
    let theirs = seen(&site, "umbra").await;
    assert_eq!(theirs.ended, [(TaskStatus::DeadLettered, 1)].into());
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_count_by_the_values_of_the_labels_that_the_settings_list() {
    let harness = Harness::embedded(only::<Haul>());
    let harness = harness.settings(|it| it.metrics_labels = vec!["customer".to_owned()]);
    let site = harness.start().await;
    let of = |customer: &str| Form::new().tenant("acme").label("customer", customer);
    driven_as(&site, of("4711").label("order", "7"), 2).await;
    driven_as(&site, of("4711"), 2).await;
    driven_as(&site, of("4712"), 600).await;
    driven(&site, "acme", 2).await;
    later(&site);
    count(&site.engine).await;
    assert_eq!(counted(&site, "acme").await, 4, "all, with a label or not");
    driven_as(&site, of("4711"), 2).await;
    let parked = site.submit(of("4712").field("seconds", 0)).await;
    park(&site, parked).await;
    later(&site);
    count(&site.engine).await;

    let acme = Tenant("acme".to_owned());
    let by = async |name: &str, value: &str| {
        let query = DurationsOf {
            label: Some((name, value)),
            ..of_haul(&acme)
        };
        let found = durations(&site.engine.ports.store, &query).await;
        found.expect("they are read")
    };
    let one = by("customer", "4711").await;
    assert_eq!(one.ended, [(TaskStatus::Completed, 3)].into());
    let tasks = one.tasks.expect("they completed");
    assert!((1_900..4_000).contains(&tasks.p99_ms), "{tasks:?}");
    assert_eq!(
        (&*one.steps, &*one.values),
        (&[][..], &["4711".to_owned(), "4712".to_owned()][..])
    );
    let other = by("customer", "4712").await;
    let expected = [(TaskStatus::Completed, 1), (TaskStatus::DeadLettered, 1)];
    assert_eq!(other.ended, expected.into());
    for (name, value) in [("customer", "4713"), ("order", "7")] {
        assert_eq!(by(name, value).await.ended, [].into(), "{name}={value}");
    }
    let names = hours(&site).await.into_iter().map(|it| it.name);
    let of_label: Vec<_> = names.filter(|it| it.ends_with(" customer")).collect();
    assert!(!of_label.is_empty());
    site.clock.advance("31d");
    count(&site.engine).await;
    assert_eq!(hours(&site).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn hours_are_forgotten_after_their_time_and_the_next_task_is_counted() {
    let site = Harness::embedded(only::<Haul>()).start().await;
    driven(&site, "acme", 2).await;
    later(&site);
    count(&site.engine).await;
    assert_eq!(counted(&site, "acme").await, 1);
    site.clock.advance("31d");
    count(&site.engine).await;
    assert_eq!(hours(&site).await, []);
    driven(&site, "acme", 2).await;
    later(&site);
    count(&site.engine).await;
    assert_eq!(counted(&site, "acme").await, 1);
}

/// The hours of a tenant as they lie in the database.
async fn hours(site: &Site) -> Vec<Document> {
    let page = DocumentQuery::Page {
        kind: DocumentKind::Durations,
        tenant: Tenant("acme".to_owned()),
        after: None,
        limit: 10,
    };
    let found = site.engine.ports.store.documents(&page).await;
    found.expect("documents").rows
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_that_cannot_be_read_holds_up_no_other() {
    let site = Harness::embedded(only::<Haul>()).start().await;
    driven(&site, "acme", 2).await;
    later(&site);
    count(&site.engine).await;
    let store = &site.engine.ports.store;
    let damage = async |tenant: &str, name: String| {
        let write = DocumentWrite {
            kind: DocumentKind::Durations,
            tenant: Tenant(tenant.to_owned()),
            name,
            expected: None,
            change: DocumentChange::Put {
                body: "{}[".to_owned(),
                due_at: None,
            },
        };
        store.put_document(&write).await.expect("written");
    };
    for hour in hours(&site).await {
        damage("acme", hour.name).await;
    }
    assert_eq!(counted(&site, "acme").await, 0, "and the page goes on");
    driven(&site, "acme", 2).await;
    later(&site);
    count(&site.engine).await;
    assert_eq!(counted(&site, "acme").await, 1, "it is counted anew");
    damage("default", "Haul position".to_owned()).await;
    count(&site.engine).await;
    driven(&site, "acme", 2).await;
    later(&site);
    count(&site.engine).await;
    assert_eq!(counted(&site, "acme").await, 2, "none is counted twice");
    parked(&site, "acme").await;
    later(&site);
    count(&site.engine).await;
    damage("default", "Haul parked".to_owned()).await;
    count(&site.engine).await;
    parked(&site, "acme").await;
    later(&site);
    count(&site.engine).await;
    assert_eq!(counted(&site, "acme").await, 4, "nor is a parked one");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_does_not_know_a_type_leaves_its_tasks_to_others() {
    let site = Harness::embedded(only::<Haul>()).start().await;
    driven(&site, "acme", 2).await;
    later(&site);
    let others = Engine::new(
        site.engine.ports.clone(),
        Arc::new(only::<Errand>()),
        (*site.engine.settings).clone(),
        "others",
    );
    count(&others).await;
    assert_eq!(counted(&site, "acme").await, 0);
    count(&site.engine).await;
    assert_eq!(counted(&site, "acme").await, 1);
}
