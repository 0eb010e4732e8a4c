//! The worker registry, what is under way, and unclaimed tasks.

use super::changes::*;
use super::labels::labels;
use super::{a_moment_later, eventually};
use counterstep_contracts::workers::{BreakerStanding, WorkerState};
use counterstep_contracts::{QueueName, TaskId, TaskStatus, WaitReason};
use counterstep_kernel::change::transition::{LeaseChange, Time};
use counterstep_kernel::ports::{
    Activity, DeniedConsumer, FetchError, Find, Flow, FlowQuery, KeptResults, MOST_LABEL_VALUES,
    OTHER, Passed, Ports, QueueFlow, Store, TaskCount, TasksMoved, Unclaimed, WorkerRow,
    WorkerSeen, first_id_at,
};
use counterstep_kernel::record::{TaskRecord, TaskRow};
use counterstep_reconciler::redispatch::is_unclaimed;
use counterstep_steps::times::DbTime;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub(crate) fn process(id: &str, lost_after: Duration) -> WorkerRow {
    WorkerRow {
        id: id.to_owned(),
        machine: "ä machine".to_owned(),
        program: "1.2.3".to_owned(),
        queues: vec![QueueName("files".to_owned())],
        types: known(),
        concurrency: 8,
        running: vec![new_task(), new_task()],
        running_count: 300,
        heavy: 2,
        heavy_count: 1,
        permits: [("bank/acme".to_owned(), 3)].into(),
        abandoned_count: 1,
        lost_after,
        passed: None,
        kept: Some(KeptResults {
            results: 3,
            bytes: 4_000,
            oldest: Some(Duration::from_secs(5)),
        }),
        fetch_errors: vec![
            FetchError {
                queue: QueueName("files.urgent".to_owned()),
                message: "not allowed".to_owned(),
                consumer: Some(DeniedConsumer {
                    name: "files~urgent".to_owned(),
                    subject: "$JS.X".to_owned(),
                }),
            },
            FetchError {
                queue: QueueName("files".to_owned()),
                message: "ä server is away".to_owned(),
                consumer: None,
            },
        ],
        breakers: [("bank".to_owned(), BreakerStanding::HalfOpen)].into(),
        activity: Activity {
            memory: Some(50 << 20),
            flow: QueueFlow {
                window: MINUTE,
                queues: [(QueueName("files".to_owned()), TasksMoved::CAME)].into(),
            },
            ..Activity::default()
        },
        started_at: None,
        is_stopped: false,
    }
}

async fn refresh(store: &Store, row: &WorkerRow) -> DbTime {
    store.refresh_worker(row).await.unwrap()
}

async fn seen(store: &Store, id: &str) -> Option<(WorkerSeen, WorkerState)> {
    let found = store.workers().await.unwrap();
    let now = found.now;
    found
        .rows
        .into_iter()
        .find(|seen| seen.row.id == id)
        .map(|seen| (seen.clone(), seen.state(now)))
}

pub(crate) async fn a_process_is_listed_as_it_says_of_itself(ports: &Ports) {
    let store = &ports.store;
    assert_eq!(store.workers().await.unwrap().rows, []);
    assert!(
        store.workers().await.unwrap().now.0 > 0,
        "the clock comes without a process, too"
    );
    let mut row = process("worker:1", MINUTE);
    let now = refresh(store, &row).await;
    let (first, state) = seen(store, "worker:1").await.expect("a process");
    assert_eq!(
        (&first.row, state, first.role(), first.stopped_at()),
        (&row, WorkerState::Alive, "worker", None)
    );
    assert_eq!((first.started_at(), first.seen_at), (now, now));
    assert!(first.serves("files", &known()[0]) && !first.serves("other", &known()[0]));

    // Later, whatever the resolution of the database's clock; with a pass that ended a minute
    // before.
    (row.queues, row.running, row.running_count) = (Vec::new(), Vec::new(), 0);
    let counts = BTreeMap::from([("taken_back".to_owned(), 7)]);
    row.started_at = Some(now);
    row.passed = Some(Passed {
        ago: MINUTE,
        counts: counts.clone(),
    });
    let again = eventually("it is seen later", || async {
        refresh(store, &row).await;
        seen(store, "worker:1")
            .await
            .map(|(seen, _)| seen)
            .filter(|seen| seen.seen_at > first.seen_at)
    })
    .await;
    assert_eq!(
        (
            again.started_at(),
            again.row.queues.len(),
            again.row.running_count
        ),
        (now, 0, 0)
    );
    let passed = again.row.passed.expect("a pass");
    assert!(
        passed.ago >= MINUTE && passed.counts == counts,
        "{passed:?}"
    );

    refresh(store, &process("api:2", MINUTE)).await;
    refresh(
        store,
        &WorkerRow {
            is_stopped: true,
            ..process("api:2", MINUTE)
        },
    )
    .await;
    let (stopped, state) = seen(store, "api:2").await.expect("a process");
    assert_eq!(
        (state, stopped.stopped_at()),
        (WorkerState::Stopped, Some(stopped.seen_at))
    );
    let order: Vec<_> = store
        .workers()
        .await
        .unwrap()
        .rows
        .into_iter()
        .map(|seen| seen.row.id)
        .collect();
    assert_eq!(order, ["api:2", "worker:1"], "the last seen first");
    refresh(store, &process("api:2", MINUTE)).await;
    assert_eq!(
        seen(store, "api:2").await.expect("a process").1,
        WorkerState::Alive
    );
}

pub(crate) async fn a_process_that_is_not_seen_for_long_is_lost(ports: &Ports) {
    let store = &ports.store;
    refresh(store, &process("worker:1", Duration::ZERO)).await;
    refresh(store, &process("worker:2", MINUTE)).await;
    eventually("it is lost", || async {
        seen(store, "worker:1")
            .await
            .filter(|(_, state)| *state == WorkerState::Lost)
    })
    .await;
    assert_eq!(
        seen(store, "worker:2").await.expect("a process").1,
        WorkerState::Alive
    );
}

pub(crate) async fn a_process_is_forgotten_where_it_was_not_seen_meanwhile(ports: &Ports) {
    let store = &ports.store;
    for id in ["worker:1", "worker:2", "worker:3"] {
        refresh(store, &process(id, MINUTE)).await;
    }
    let forget = async |ids: &[&str], unseen_for| {
        let ids: Vec<_> = ids.iter().map(|id| (*id).to_owned()).collect();
        store.forget_workers(&ids, unseen_for).await.unwrap()
    };
    assert_eq!(
        forget(&["worker:1", "worker:2"], MINUTE).await,
        0,
        "seen meanwhile"
    );
    assert_eq!(forget(&["worker:1", "worker:9"], Duration::ZERO).await, 1);
    assert_eq!(forget(&[], Duration::ZERO).await, 0);
    let left: Vec<_> = store
        .workers()
        .await
        .unwrap()
        .rows
        .into_iter()
        .map(|seen| seen.row.id)
        .collect();
    assert_eq!(
        (left.len(), left.contains(&"worker:1".to_owned())),
        (2, false)
    );
}

/// A task in that state and of that queue, with a due time where one is given.
async fn task(store: &Store, status: TaskStatus, queue: &str, due: Option<Duration>) -> TaskRecord {
    let waiting = (status == TaskStatus::Waiting).then_some(WaitReason::Retry);
    let mut change = submit(TaskRow {
        status,
        waiting,
        queue: queue.to_owned(),
        ..row(new_task())
    });
    write_of(&mut change).due = due.map_or(Time::Clear, Time::In);
    commit(store, NEW, &change).await.unwrap();
    load(store, change.task_id).await
}

pub(crate) async fn what_is_under_way_is_counted_and_its_age_told(ports: &Ports) {
    let store = &ports.store;
    let nothing = store.gauges(&[]).await.unwrap();
    assert_eq!(
        (nothing.tasks, nothing.oldest_running, nothing.oldest_due),
        (Vec::new(), None, None)
    );
    assert_eq!(
        (nothing.oldest_unpublished, nothing.parked),
        (None, Vec::new())
    );

    // Neither can be claimed.
    task(store, TaskStatus::Waiting, "files", Some(MINUTE)).await;
    task(store, TaskStatus::DeadLettered, "files", None).await;
    task(store, TaskStatus::Completed, "files", None).await;
    let gauges = store.gauges(&[]).await.unwrap();
    assert_eq!((gauges.oldest_running, gauges.oldest_due), (None, None));
    assert_eq!(
        gauges.oldest_unpublished, None,
        "others are told of none of them"
    );

    let running = claimed(store, MINUTE).await;
    let due = task(store, TaskStatus::Waiting, "other", Some(Duration::ZERO)).await;
    for _ in 0..2 {
        task(store, TaskStatus::Dispatched, "files", None).await;
    }
    let gauges = eventually("ages grow", || async {
        let gauges = store.gauges(&[]).await.unwrap();
        let grown = gauges.oldest_running > Some(Duration::ZERO)
            && gauges.oldest_due > Some(Duration::ZERO);
        grown.then_some(gauges)
    })
    .await;
    let of = |status, queue: &str, count| TaskCount {
        status,
        queue: queue.to_owned(),
        labels: Vec::new(),
        count,
    };
    assert_eq!(
        gauges.tasks,
        [
            of(TaskStatus::DeadLettered, "files", 1),
            of(TaskStatus::Dispatched, "files", 2),
            of(TaskStatus::Running, "files", 1),
            of(TaskStatus::Waiting, "files", 1),
            of(TaskStatus::Waiting, "other", 1),
        ]
    );
    // Parked ones by type too, the most first.
    for status in [TaskStatus::CompensationFailed, TaskStatus::DeadLettered] {
        task(store, status, "other", None).await;
    }
    let parked = store.gauges(&[]).await.unwrap().parked;
    let name = row(new_task()).task_type;
    let counts: Vec<_> = parked
        .iter()
        .map(|it| (it.status, &it.task_type, it.count))
        .collect();
    assert_eq!(
        counts,
        [
            (TaskStatus::DeadLettered, &name, 2),
            (TaskStatus::CompensationFailed, &name, 1),
        ]
    );
    assert!(parked[0].oldest > parked[1].oldest, "{parked:?}");
    // By the database's clock: none can be older than its row.
    let now = load(store, running.task.id).await.now;
    assert!(
        gauges.oldest_running <= Some(now.after(running.task.updated_at)),
        "{gauges:?}"
    );
    assert!(
        gauges.oldest_due <= Some(now.after(due.task.due_at.expect("a due time"))),
        "{gauges:?}"
    );
    // Of each queue those that were offered on it, whatever is due there besides.
    let oldest: Vec<_> = gauges.oldest_unclaimed.iter().collect();
    let [(queue, age)] = oldest[..] else {
        panic!("{gauges:?}");
    };
    assert!(
        queue.0 == "files" && Some(*age) <= gauges.oldest_due,
        "{gauges:?}"
    );
}

async fn unclaimed(store: &Store, for_at_least: Duration, at_most: Duration) -> Vec<TaskId> {
    let queues = vec![QueueName("files".into()), QueueName("other".into())];
    let which = Unclaimed {
        queues,
        known: known(),
        for_at_least,
        at_most,
    };
    store
        .find(&Find::Unclaimed(which), 10)
        .await
        .unwrap()
        .into_iter()
        .map(|due| due.task)
        .collect()
}

pub(crate) async fn what_nobody_came_for_is_found(ports: &Ports) {
    let store = &ports.store;
    let dispatched = task(store, TaskStatus::Dispatched, "files", None).await;
    let submitted = task(store, TaskStatus::Submitted, "other", None).await;
    let waiting = task(store, TaskStatus::Waiting, "files", Some(Duration::ZERO)).await;
    let undo = task(store, TaskStatus::Compensating, "files", None).await;
    let due_undo = task(
        store,
        TaskStatus::Compensating,
        "files",
        Some(Duration::ZERO),
    )
    .await;
    // These wait, or are leased, or are of no concern here.
    task(store, TaskStatus::Waiting, "files", Some(MINUTE)).await;
    task(store, TaskStatus::Waiting, "files", None).await;
    let mut version = submit(TaskRow {
        status: TaskStatus::Waiting,
        waiting: Some(WaitReason::Version),
        ..row(new_task())
    });
    write_of(&mut version).due = Time::In(Duration::ZERO);
    commit(store, NEW, &version).await.unwrap();
    task(store, TaskStatus::Dispatched, "elsewhere", None).await;
    task(store, TaskStatus::DeadLettered, "files", None).await;
    claimed(store, MINUTE).await;
    claimed(store, Duration::ZERO).await;
    let mut strange = submit(TaskRow {
        version: 2,
        ..row(new_task())
    });
    write_of(&mut strange).due = Time::Clear;
    commit(store, NEW, &strange).await.unwrap();
    // A sibling of a group still runs under a lease.
    let leased = task(store, TaskStatus::Waiting, "files", Some(Duration::ZERO)).await;
    let mut change = after(&leased);
    write_of(&mut change).lease = LeaseChange::Take {
        owner: "one".into(),
        ttl: MINUTE,
    };
    commit(store, free(&leased), &change).await.unwrap();

    let mut expected =
        [&dispatched, &submitted, &waiting, &undo, &due_undo].map(|record| record.task.id);
    let mut found = unclaimed(store, Duration::ZERO, MINUTE).await;
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    for task in found {
        let record = load(store, task).await;
        assert!(
            is_unclaimed(&record, Duration::ZERO) && !is_unclaimed(&record, MINUTE),
            "{record:?}"
        );
    }
    assert_eq!(unclaimed(store, MINUTE, MINUTE).await, []);
    assert_eq!(
        unclaimed(store, Duration::ZERO, Duration::ZERO).await.len(),
        5
    );
}

pub(crate) async fn what_was_offered_again_is_found_less_and_less_often(ports: &Ports) {
    let store = &ports.store;
    const GAP: Duration = Duration::from_millis(300);
    for status in [TaskStatus::Dispatched, TaskStatus::Waiting] {
        // Due at once, and offered again once that time had passed since.
        let first = task(store, status, "files", Some(Duration::ZERO)).await;
        let id = first.task.id;
        let gap = |record: &TaskRecord| {
            record
                .task
                .updated_at
                .after(record.task.due_at.expect("a due time"))
        };
        eventually(
            "it is left alone as long again as it had waited, and then found",
            || async {
                let before = load(store, id).await;
                if gap(&before) < GAP {
                    commit(store, free(&before), &after(&before)).await.unwrap();
                    return None;
                }
                let found = unclaimed(store, Duration::ZERO, MINUTE).await.contains(&id);
                // Whatever the query saw lies between the two loads.
                let later = load(store, id).await;
                let waited = |record: &TaskRecord| record.now.after(record.task.updated_at);
                assert!(
                    !found || waited(&later) >= gap(&later),
                    "found too early: {later:?}"
                );
                assert!(
                    found || waited(&before) < gap(&before),
                    "not found: {before:?}"
                );
                assert!(
                    unclaimed(store, Duration::ZERO, Duration::from_millis(1))
                        .await
                        .contains(&id)
                        || !found
                );
                found.then_some(())
            },
        )
        .await;
    }
}

pub(crate) async fn tasks_are_counted_by_labels_and_the_rarest_values_together(ports: &Ports) {
    let store = &ports.store;
    let names = ["customer".to_owned(), "a.b-c".to_owned()];
    let submitted = async |status, of: &[(&str, &str)]| {
        let row = TaskRow {
            status,
            labels: labels(of),
            queue: "files".to_owned(),
            ..row(new_task())
        };
        commit(store, NEW, &submit(row)).await.unwrap();
    };
    let odd = "Größe \"3\", \\ %";
    let of = |status, values: [&str; 2], count| TaskCount {
        status,
        queue: "files".to_owned(),
        labels: values.map(str::to_owned).to_vec(),
        count,
    };
    submitted(TaskStatus::Dispatched, &[("customer", "7"), ("x", "y")]).await;
    submitted(TaskStatus::Dispatched, &[("customer", "7"), ("a.b-c", odd)]).await;
    submitted(TaskStatus::Dispatched, &[]).await;
    submitted(TaskStatus::Completed, &[("customer", "7")]).await;
    let few = store.gauges(&names).await.unwrap();
    let (dispatched, parked) = (TaskStatus::Dispatched, TaskStatus::DeadLettered);
    let expected = [
        of(dispatched, ["", ""], 1),
        of(dispatched, ["7", ""], 1),
        of(dispatched, ["7", odd], 1),
    ];
    assert_eq!(few.tasks.len(), expected.len(), "{:?}", few.tasks);
    assert!(
        expected.iter().all(|it| few.tasks.contains(it)),
        "{:?}",
        few.tasks
    );
    let due = eventually("an age", || async {
        let found = store.gauges(&names).await.unwrap().oldest_due;
        found.filter(|due| !due.is_zero())
    });
    assert!(due.await <= store.gauges(&[]).await.unwrap().oldest_due.unwrap());

    // More than are shown. Those of two tasks are, whatever state these are in.
    for at in 0..MOST_LABEL_VALUES {
        let value = format!("many-{at:03}");
        submitted(dispatched, &[("customer", &value)]).await;
        if at >= 2 {
            submitted(parked, &[("customer", &value)]).await;
        }
    }
    let many = store.gauges(&names).await.unwrap();
    let total: u64 = many.tasks.iter().map(|tasks| tasks.count).sum();
    assert_eq!(total, 3 + 100 + 98);
    let values: BTreeSet<_> = many.tasks.iter().map(|tasks| &tasks.labels).collect();
    assert_eq!(values.len(), MOST_LABEL_VALUES + 1);
    // Of those of one task, the first by name keep theirs.
    for shown in [["", ""], ["7", ""]] {
        assert!(many.tasks.contains(&of(dispatched, shown, 1)), "{shown:?}");
    }
    assert!(many.tasks.contains(&of(parked, ["many-099", ""], 1)));
    assert!(many.tasks.contains(&of(dispatched, [OTHER, OTHER], 3)));
    let plain = store.gauges(&[]).await.unwrap();
    let of_all = |status, count| TaskCount {
        labels: Vec::new(),
        ..of(status, ["", ""], count)
    };
    assert_eq!(plain.tasks, [of_all(parked, 98), of_all(dispatched, 103)]);
}

pub(crate) async fn what_came_and_went_is_counted_from_a_time_on(ports: &Ports) {
    let store = &ports.store;
    let ended = async |status| {
        let mut change = submit(TaskRow {
            status,
            ..row(new_task())
        });
        write_of(&mut change).finished = Time::In(Duration::ZERO);
        commit(store, NEW, &change).await.unwrap();
        load(store, change.task_id).await
    };
    let before = ended(TaskStatus::Completed).await;
    a_moment_later(store).await;
    let since = store.workers().await.unwrap().now;
    a_moment_later(store).await;
    let count = async |since, until| {
        let query = FlowQuery {
            since,
            until,
            task_types: vec![before.task.task_type.clone(), "Unknown".to_owned()],
        };
        store.flow(&query).await.unwrap()
    };
    let now = async || store.workers().await.unwrap().now;
    assert_eq!(count(since, now().await).await, Flow::default());
    for status in [
        TaskStatus::Completed,
        TaskStatus::Completed,
        TaskStatus::Failed,
    ] {
        ended(status).await;
    }
    task(store, TaskStatus::Dispatched, "files", None).await;
    let until = now().await;
    a_moment_later(store).await;
    // What comes later is in the next count alone; one by a clock that is a little behind, too.
    ended(TaskStatus::Cancelled).await;
    let millis = u64::try_from(until.0 / 1_000).unwrap();
    submitted(store, row(first_id_at(millis - 5_000))).await;
    let flow = count(since, until).await;
    let expected = [(TaskStatus::Completed, 2), (TaskStatus::Failed, 1)];
    assert_eq!((flow.submitted, flow.ended), (4, BTreeMap::from(expected)));
    let flow = count(until, now().await).await;
    let expected = [(TaskStatus::Cancelled, 1)];
    assert_eq!((flow.submitted, flow.ended), (2, BTreeMap::from(expected)));
    let all = FlowQuery {
        since: DbTime(0),
        until: now().await,
        task_types: Vec::new(),
    };
    let all = store.flow(&all).await.unwrap();
    assert_eq!((all.submitted, all.ended.len()), (7, 0));
}
