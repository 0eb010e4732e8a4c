//! Each read of the port, by name.

use super::reads::SLACK;
use crate::suite::changes::*;
use crate::suite::labels::labels;
use counterstep_contracts::{QueueName, TaskId, TaskStatus, Tenant};
use counterstep_kernel::ports::{
    ChildQuery, FailureFilter, FailureQuery, Find, First, FlowQuery, JournalPage, LabelQuery, Lane,
    ListOrder, LoadFor, Lost, OutboxOp, PlaceQuery, PurgeOp, ReceiveOp, RevisionsOf, ScheduleQuery,
    Store, TaskQuery, Unclaimed, WaitingQuery,
};
use counterstep_steps::times::DbTime;
use futures::future::BoxFuture;
use std::time::Duration;
use uuid::Uuid;

pub(super) const PAGE: u32 = 51;

/// A list that looks at more than it shows.
const SEARCH: &str = "search";

/// By how much more a read may cost.
pub(super) fn slack(name: &str) -> i64 {
    if name.starts_with(SEARCH) {
        SLACK + i64::from(TaskQuery::MOST_CANDIDATES)
    } else {
        SLACK
    }
}

/// A task of the filled database.
pub(super) fn task(number: u32) -> TaskId {
    TaskId(Uuid::parse_str(&format!("01900000-0000-7000-8000-{number:012x}")).unwrap())
}

pub(super) type Read = Box<dyn Fn(Store) -> BoxFuture<'static, ()>>;

macro_rules! read {
    ($store:ident => $call:expr) => {
        Box::new(|$store: Store| -> BoxFuture<'static, ()> {
            Box::pin(async move {
                $call.await.unwrap();
            })
        }) as Read
    };
}
pub(super) use read;

fn queues() -> Vec<QueueName> {
    vec![QueueName("files".into())]
}

/// Each read of the port, by name; lists with each combination of filters that a route has.
pub(super) fn reads() -> Vec<(String, Read)> {
    let mut reads: Vec<(&str, Read)> = vec![
        ("load", read!(store => store.load(task(50)))),
        (
            "records",
            read!(store => store.records(&[task(50), task(51)], LoadFor::State)),
        ),
        ("history", read!(store => store.history(task(50)))),
        ("log", read!(store => store.log(task(50)))),
        (
            "flow",
            read!(store => store.flow(&FlowQuery {
                since: DbTime(0), until: DbTime(1), task_types: vec!["Zip".into()],
            })),
        ),
        (
            "children",
            read!(store => store.children(&ChildQuery {
                parent: task(50), step: None, statuses: Vec::new(), after: None, limit: PAGE,
            })),
        ),
        ("child counts", read!(store => store.child_counts(task(50)))),
        ("above", read!(store => store.above(&[task(51), task(52)]))),
        (
            "places of a key",
            read!(store => store.places(&PlaceQuery::Of {
                key: "Zip/default/5".into(), first: First::Oldest, waiting: PAGE,
            })),
        ),
        (
            "places of a key, newest first",
            read!(store => store.places(&PlaceQuery::Of {
                key: "Zip/default/5".into(), first: First::Newest, waiting: PAGE,
            })),
        ),
        (
            "places of tasks",
            read!(store => store.places(&PlaceQuery::Tasks(vec![task(50), task(60)]))),
        ),
        (
            "place counts",
            read!(store => store.place_counts(Some("Zip/default/5"), 20)),
        ),
        ("wake", read!(store => store.wake(task(50)))),
        (
            "reserved until",
            read!(store => store.reserved_until(task(50))),
        ),
        ("in flight", read!(store => store.in_flight())),
        ("gauges", read!(store => store.gauges(&[]))),
        (
            "gauges by labels",
            read!(store => store.gauges(&["order".to_owned()])),
        ),
        ("workers", read!(store => store.workers())),
        ("types", read!(store => store.types())),
        (
            "key",
            read!(store => store.idempotency(&Tenant::default(), "key-50")),
        ),
        (
            "successors",
            read!(store => store.successors(&Tenant::default(), TaskId(Uuid::nil()))),
        ),
        (
            "all, newest",
            read!(store => store.list(&TaskQuery { limit: 1, ..TaskQuery::default() })),
        ),
        (
            "schedules",
            read!(store => store.schedules(&ScheduleQuery::Page {
                tenant: Tenant::default(), after: None, limit: PAGE,
            })),
        ),
        (
            "schedules due",
            read!(store => store.schedules(&ScheduleQuery::Due {
                types: vec!["Zip".into()], declared: Vec::new(), after: None, limit: PAGE,
            })),
        ),
        (
            "failures",
            read!(store => store.failures(&FailureQuery {
                tenant: Tenant::default(), task_type: "Zip".into(), classes: &["permanent"], within: MINUTE, counts_from: None, at_most: 9,
            })),
        ),
        (
            "failing tenants",
            read!(store => store.failing_tenants("Zip", MINUTE)),
        ),
        (
            "label names",
            read!(store => store.labels(&LabelQuery::Names { tenant: Tenant::default(), prefix: String::new(), limit: PAGE })),
        ),
        (
            "label names of a value",
            read!(store => store.labels(&LabelQuery::With {
                tenant: Tenant::default(), names: vec!["customer".to_owned(), "order".to_owned()], value: "50".to_owned(),
            })),
        ),
        (
            "label values",
            read!(store => store.labels(&LabelQuery::Values {
                tenant: Tenant::default(), name: "order".to_owned(), prefix: "5".to_owned(), limit: 10,
            })),
        ),
        (
            "waiting",
            read!(store => store.waiting(&WaitingQuery {
                tenant: Tenant::default(), task_type: Some("Zip".into()), at_most: 9,
            })),
        ),
        (
            "lost",
            read!(store => store.find(&Find::Lost(Lost::default()), PAGE)),
        ),
        (
            "tasks to sweep",
            read!(store => store.find(&Find::ToSweep, PAGE)),
        ),
        (
            "overdue receives",
            read!(store => store.receives(&ReceiveOp::Overdue { limit: PAGE })),
        ),
        (
            "receives",
            read!(store => store.receives(&ReceiveOp::Of(vec![task(50), task(60)]))),
        ),
        (
            "relay",
            read!(store => store.outbox(OutboxOp::Take { older_than: Duration::ZERO, limit: PAGE })),
        ),
        (
            "published",
            read!(store => store.outbox(OutboxOp::Published(vec![1, 2, 3]))),
        ),
        (
            "published of changes",
            read!(store => store.outbox(OutboxOp::PublishedOf(vec![new_change()]))),
        ),
        (
            "tombstones",
            read!(store => store.purge(&PurgeOp::OldestTombstones { limit: PAGE })),
        ),
        (
            "tombstones of tasks",
            read!(store => store.purge(&PurgeOp::TombstonesOf(vec![task(50), task(60)]))),
        ),
        (
            "rows of one",
            read!(store => store.journal(&JournalPage {
                task: Some(task(50).to_string()), after: None, limit: PAGE, lane: Lane::People })),
        ),
        (
            "rows",
            read!(store => store.journal(&JournalPage {
                task: None, after: Some((task(5_000).to_string(), 1)), limit: PAGE, lane: Lane::People })),
        ),
        (
            "revisions",
            read!(store => async move {
                let tasks: Vec<_> = (50..100).map(task).collect();
                store.lines(&tasks).await.unwrap();
                store.revisions(&RevisionsOf::Tasks(tasks)).await
            }),
        ),
        (
            "revisions of those that ended",
            read!(store => async move {
                let (tenant, task_types) = (Some(Tenant::default()), vec!["Zip".to_owned(), "Rare".to_owned()]);
                let after = (DbTime(0), task(0));
                store.revisions(&RevisionsOf::Ended { tenant, task_types, after, limit: PAGE }).await
            }),
        ),
        (
            "revisions of those that are parked",
            read!(store => async move {
                let first = (DbTime(0), task(0));
                let after = ["Rare", "Zip"].map(|of| (of.to_owned(), first)).into();
                store.revisions(&RevisionsOf::Parked { after, limit: PAGE }).await
            }),
        ),
        (
            "heads",
            read!(store => store.chain_tips(&JournalPage {
                task: None, after: Some((task(5_000).to_string(), 1)), limit: PAGE, lane: Lane::People })),
        ),
    ];
    reads.push(("claimable", {
        read!(store => async move {
            let due = Find::Claimable { queues: queues(), known: known(), unclaimed_for: Duration::ZERO, after: None };
            store.find(&due, PAGE).await
        })
    }));
    reads.push(("unclaimed", {
        read!(store => async move {
            let which =
                Unclaimed { queues: queues(), known: known(), for_at_least: Duration::ZERO, at_most: MINUTE };
            store.find(&Find::Unclaimed(which), PAGE).await
        })
    }));
    for (name, after) in [("ended", None), ("ended, next page", Some(task(9_001)))] {
        let read = move |store: Store| -> BoxFuture<'static, ()> {
            let (task_type, status) = ("Zip".to_owned(), TaskStatus::Completed);
            let ended = Find::Ended {
                task_type,
                status,
                before: MINUTE,
                after,
            };
            Box::pin(async move { drop(store.find(&ended, PAGE).await.unwrap()) })
        };
        reads.push((name, Box::new(read)));
    }
    let mut reads: Vec<(String, Read)> = reads
        .into_iter()
        .map(|(name, read)| (name.to_owned(), read))
        .collect();
    for task_type in [None, Some("Zip"), Some("Rare")] {
        for status in [
            None,
            Some(TaskStatus::Completed),
            Some(TaskStatus::Cancelled),
            Some(TaskStatus::DeadLettered),
        ] {
            for (before, order) in [
                (None, ListOrder::Newest),
                (Some(task(30)), ListOrder::Newest),
                (None, ListOrder::Oldest),
            ] {
                let query = TaskQuery {
                    order,
                    tenant: Some(Tenant::default()),
                    task_type: task_type.map(str::to_owned),
                    statuses: status.into_iter().collect(),
                    before,
                    limit: PAGE,
                    ..TaskQuery::default()
                };
                let name = format!("list of {task_type:?} {status:?} before {before:?} {order:?}");
                let read = move |store: Store| -> BoxFuture<'static, ()> {
                    let query = query.clone();
                    Box::pin(async move { drop(store.list(&query).await.unwrap()) })
                };
                reads.push((name, Box::new(read)));
            }
        }
    }
    reads.extend(searches());
    reads
}

/// Lists by one label, of one task, of many or of all; and searches that find nothing, and end all the
/// same.
fn searches() -> Vec<(String, Read)> {
    let query = |by: &[(&str, &str)]| TaskQuery {
        tenant: Some(Tenant::default()),
        labels: labels(by),
        limit: PAGE,
        ..TaskQuery::default()
    };
    let lost = FailureFilter {
        class: Some("lost".into()),
        text: Some("no host".into()),
    };
    let queries = [
        query(&[("order", "50")]),
        query(&[("customer", "7")]),
        query(&[("region", "eu")]),
        TaskQuery {
            before: Some(task(9_000)),
            ..query(&[("region", "eu")])
        },
        TaskQuery {
            statuses: vec![TaskStatus::Cancelled],
            ..query(&[("region", "eu")])
        },
        TaskQuery {
            task_type: Some("Zip".into()),
            failure: lost.clone(),
            ..query(&[("region", "eu")])
        },
        query(&[("region", "eu"), ("zone", "none")]),
        TaskQuery {
            order: ListOrder::Oldest,
            ..query(&[("region", "eu")])
        },
        TaskQuery {
            ending: Some("badcafe0".to_owned()),
            ..query(&[])
        },
        TaskQuery {
            task_type: Some("Zip".into()),
            statuses: vec![TaskStatus::Completed],
            failure: lost,
            ..query(&[])
        },
    ];
    let search = |query: TaskQuery| -> (String, Read) {
        let found = if query.candidates() == PAGE {
            "list by label"
        } else {
            SEARCH
        };
        let name = format!("{found}: {query:?}");
        let read = move |store: Store| -> BoxFuture<'static, ()> {
            let query = query.clone();
            Box::pin(async move { drop(store.list(&query).await.unwrap()) })
        };
        (name, Box::new(read))
    };
    queries.into_iter().map(search).collect()
}
