//! What finds tasks and events: due, list, outbox.

use super::changes::*;
use counterstep_contracts::dead_letter::PoisonView;
use counterstep_contracts::{QueueName, Rev, TaskId, TaskStatus, Tenant, WaitReason};
use counterstep_kernel::change::transition::{LeaseChange, Time, Transition};
use counterstep_kernel::dead_letters::poison;
use counterstep_kernel::ports::{
    Find, InFlight, KnownType, Lost, LostOf, OutboxOp, OutboxRow, Poison, Ports, Revisions,
    RevisionsOf, Store, TaskQuery, TaskRevision,
};
use counterstep_kernel::record::{TaskRecord, TaskRow};
use counterstep_steps::times::DbTime;
use futures::future::join_all;
use std::collections::BTreeMap;
use std::time::Duration;

async fn claimable(store: &Store, unclaimed_for: Duration, limit: u32) -> Vec<TaskId> {
    let due = Find::Claimable {
        queues: vec![QueueName("files".into()), QueueName("files.api".into())],
        known: known(),
        unclaimed_for,
        after: None,
    };
    store
        .find(&due, limit)
        .await
        .unwrap()
        .into_iter()
        .map(|due| due.task)
        .collect()
}

/// A task in that state, with a due time where one is given.
async fn resting(store: &Store, status: TaskStatus, due: Option<Duration>) -> TaskRecord {
    let mut change = submit(TaskRow {
        status,
        waiting: (status == TaskStatus::Waiting).then_some(WaitReason::Retry),
        ..row(new_task())
    });
    write_of(&mut change).due = due.map_or(Time::Clear, Time::In);
    commit(store, NEW, &change).await.unwrap();
    load(store, change.task_id).await
}

pub(crate) async fn a_dispatched_task_is_claimable_once_it_is_unclaimed_for_long(ports: &Ports) {
    let store = &ports.store;
    let dispatched = submitted(store, row(new_task())).await;
    let api = TaskRow {
        status: TaskStatus::Submitted,
        queue: "files.api".into(),
        ..row(new_task())
    };
    let api = submitted(store, api).await;
    submitted(
        store,
        TaskRow {
            queue: "other".into(),
            ..row(new_task())
        },
    )
    .await;
    // A due time counts only in a state that waits for it.
    let left_over = resting(store, TaskStatus::Dispatched, Some(MINUTE)).await;
    claimed(store, MINUTE).await;
    claimed(store, Duration::ZERO).await;
    resting(store, TaskStatus::Completed, None).await;
    resting(store, TaskStatus::DeadLettered, None).await;
    let mut found = claimable(store, Duration::ZERO, 10).await;
    found.sort_unstable();
    assert_eq!(found, [dispatched.task.id, api.task.id, left_over.task.id]);
    assert_eq!(claimable(store, MINUTE, 10).await, []);
    let due = Find::Claimable {
        queues: vec![QueueName("other".into())],
        known: known(),
        unclaimed_for: MINUTE,
        after: None,
    };
    assert_eq!(store.find(&due, 10).await.unwrap(), []);
    let due = Find::Claimable {
        queues: vec![QueueName("files.api".into())],
        known: known(),
        unclaimed_for: Duration::ZERO,
        after: None,
    };
    // A host that does not know the type is not even shown them: they would take the places of
    // those that it knows.
    let newer = KnownType {
        version: 2,
        ..known()[0].clone()
    };
    let changed = KnownType {
        definition: "other".to_owned(),
        ..known()[0].clone()
    };
    for known in [newer, changed] {
        let queues = vec![QueueName("files.api".into())];
        let strange = Find::Claimable {
            queues,
            known: vec![known],
            unclaimed_for: Duration::ZERO,
            after: None,
        };
        assert_eq!(store.find(&strange, 10).await.unwrap(), []);
    }
    let found = &store.find(&due, 10).await.unwrap()[0];
    assert_eq!(
        (found.task_type.as_str(), found.version, found.status),
        ("Zip", Some(1), Some(TaskStatus::Submitted))
    );
}

pub(crate) async fn a_waiting_task_is_claimable_when_it_is_due(ports: &Ports) {
    let store = &ports.store;
    let waiting = resting(store, TaskStatus::Waiting, Some(Duration::ZERO)).await;
    let undo = resting(store, TaskStatus::Compensating, Some(Duration::ZERO)).await;
    resting(store, TaskStatus::Waiting, Some(MINUTE)).await;
    resting(store, TaskStatus::Compensating, Some(MINUTE)).await;
    // Waits for a signal or a version.
    resting(store, TaskStatus::Waiting, None).await;
    let mut found = claimable(store, MINUTE, 10).await;
    found.sort_unstable();
    assert_eq!(found, [waiting.task.id, undo.task.id]);

    // A sibling of a group still runs under the lease.
    let mut change = after(&waiting);
    write_of(&mut change).lease = LeaseChange::Take {
        owner: "one".into(),
        ttl: MINUTE,
    };
    commit(store, free(&waiting), &change).await.unwrap();
    assert_eq!(claimable(store, MINUTE, 10).await, [undo.task.id]);
}

pub(crate) async fn claimable_tasks_are_found_page_by_page(ports: &Ports) {
    let store = &ports.store;
    let mut expected = Vec::new();
    // Some of the same moment, where the database's clock is no finer than that.
    for _ in 0..5 {
        expected.push(submitted(store, row(new_task())).await.task.id);
        let due = Some(Duration::ZERO);
        expected.push(resting(store, TaskStatus::Waiting, due).await.task.id);
    }
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let due = Find::Claimable {
            queues: vec![QueueName("files".into())],
            known: known(),
            unclaimed_for: Duration::ZERO,
            after,
        };
        let page = store.find(&due, 3).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some((last.since, last.task));
        found.extend(page.into_iter().map(|due| (due.since, due.task)));
    }
    assert!(found.is_sorted());
    let mut found: Vec<_> = found.into_iter().map(|(_, task)| task).collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

pub(crate) async fn a_compensating_task_whose_message_was_lost_is_claimable(ports: &Ports) {
    let store = &ports.store;
    let cancelled = resting(store, TaskStatus::Compensating, None).await;
    assert_eq!(
        claimable(store, Duration::ZERO, 10).await,
        [cancelled.task.id]
    );
    assert_eq!(claimable(store, MINUTE, 10).await, []);
}

pub(crate) async fn the_oldest_claimable_tasks_come_first(ports: &Ports) {
    let store = &ports.store;
    let first = submitted(store, row(new_task())).await;
    // Later, whatever the resolution of the database's clock.
    let second = super::eventually("a later task", || async {
        let record = submitted(
            store,
            TaskRow {
                queue: "files.api".into(),
                ..row(new_task())
            },
        )
        .await;
        Some(record).filter(|record| record.task.updated_at > first.task.updated_at)
    });
    let second = second.await;
    let found = claimable(store, Duration::ZERO, 100).await;
    let place = |record: &TaskRecord| {
        found
            .iter()
            .position(|task| *task == record.task.id)
            .unwrap()
    };
    assert_eq!(place(&first), 0);
    assert!(place(&second) > 0);
    assert_eq!(claimable(store, Duration::ZERO, 1).await, [first.task.id]);
    assert_eq!(claimable(store, Duration::ZERO, 0).await, []);
}

pub(crate) async fn only_active_tasks_with_an_expired_lease_are_lost(ports: &Ports) {
    let store = &ports.store;
    let lost = claimed(store, Duration::ZERO).await;
    claimed(store, MINUTE).await;
    submitted(store, row(new_task())).await;
    let undo = resting(store, TaskStatus::Compensating, None).await;
    commit(store, free(&undo), &claim(&undo, "one", Duration::ZERO))
        .await
        .unwrap();
    let found = store.find(&Find::Lost(Lost::default()), 10).await.unwrap();
    assert_eq!(
        found.iter().map(|due| due.task).collect::<Vec<_>>(),
        [lost.task.id, undo.task.id]
    );
    assert_eq!(
        store
            .find(&Find::Lost(Lost::default()), 1)
            .await
            .unwrap()
            .len(),
        1
    );
}

pub(crate) async fn lost_tasks_are_found_by_type_and_by_age(ports: &Ports) {
    let store = &ports.store;
    let lost = claimed(store, Duration::ZERO).await;
    let found = async |which: Lost| store.find(&Find::Lost(which), 10).await.unwrap().len();
    let of = |name: &str| Lost {
        task_type: Some(name.to_owned()),
        ..Lost::default()
    };
    assert_eq!(found(of(&lost.task.task_type)).await, 1);
    assert_eq!(found(of("Transfer")).await, 0);
    let whose = |of| Lost {
        of,
        ..Lost::default()
    };
    let stranger = vec![KnownType {
        name: "Zip".to_owned(),
        version: 1,
        definition: "another".to_owned(),
    }];
    assert_eq!(found(whose(LostOf::These(known()))).await, 1);
    assert_eq!(found(whose(LostOf::Others(known()))).await, 0);
    assert_eq!(found(whose(LostOf::These(stranger.clone()))).await, 0);
    assert_eq!(found(whose(LostOf::Others(stranger))).await, 1);
    assert_eq!(
        found(Lost {
            stale_after: MINUTE,
            ..Lost::default()
        })
        .await,
        0,
        "its lease has just run out"
    );
    assert_eq!(
        found(Lost {
            stale_after: Duration::MAX,
            ..Lost::default()
        })
        .await,
        0
    );
}

pub(crate) async fn a_lost_task_is_reserved_for_one_caller_until_it_is_taken_back(ports: &Ports) {
    let store = &ports.store;
    let mut lost = Vec::new();
    for _ in 0..20 {
        lost.push(claimed(store, Duration::ZERO).await.task.id);
    }
    let live = claimed(store, MINUTE).await.task.id;
    let asked: Vec<_> = lost.iter().copied().chain([live, new_task()]).collect();
    let reserved = join_all((0..5).map(|_| store.reserve(&asked, MINUTE))).await;
    let mut reserved: Vec<_> = reserved.into_iter().flat_map(Result::unwrap).collect();
    reserved.sort();
    let mut all = lost.clone();
    all.sort();
    assert_eq!(
        reserved, all,
        "each is reserved once, and only what is lost"
    );
    assert_eq!(
        store.find(&Find::Lost(Lost::default()), 100).await.unwrap(),
        [],
        "the others skip them"
    );
    let until = store.reserved_until(lost[0]).await.unwrap();
    let now = load(store, lost[0]).await.now;
    assert!(
        until > Some(now) && until <= Some(now.later(MINUTE)),
        "{until:?}"
    );
    assert_eq!(store.reserved_until(live).await.unwrap(), None);

    // A claim ends the reservation: lost once more, the task is found at once.
    let record = load(store, lost[0]).await;
    commit(store, free(&record), &claim(&record, "two", Duration::ZERO))
        .await
        .unwrap();
    let found = store.find(&Find::Lost(Lost::default()), 100).await.unwrap();
    assert_eq!(
        found.iter().map(|due| due.task).collect::<Vec<_>>(),
        [lost[0]]
    );
    assert_eq!(store.reserved_until(lost[0]).await.unwrap(), None);
    assert_eq!(store.reserve(&lost, MINUTE).await.unwrap(), [lost[0]]);
    // A reservation that has run out is none.
    let other = claimed(store, Duration::ZERO).await.task.id;
    assert_eq!(
        store.reserve(&[other], Duration::ZERO).await.unwrap(),
        [other]
    );
    assert_eq!(
        store.reserve(&[other], Duration::ZERO).await.unwrap(),
        [other]
    );
}

pub(crate) async fn a_list_pages_from_the_newest_and_filters(ports: &Ports) {
    let store = &ports.store;
    let mut made = Vec::new();
    for n in 0..5 {
        let mut row = row(new_task());
        if n % 2 == 1 {
            row.tenant = Tenant("acme".into());
            row.task_type = "Transfer".into();
            row.status = TaskStatus::Completed;
        }
        made.push(submitted(store, row).await.task);
    }
    made.reverse();
    let list = |query: TaskQuery| async move {
        let query = TaskQuery {
            limit: if query.limit == 0 { 100 } else { query.limit },
            ..query
        };
        store.list(&query).await.unwrap().lines
    };
    let ids = |lines: &[counterstep_kernel::ports::TaskLine]| {
        lines.iter().map(|line| line.task).collect::<Vec<_>>()
    };
    let all: Vec<_> = made.iter().map(|row| row.id).collect();
    let odd = vec![all[1], all[3]];

    let first = list(TaskQuery {
        limit: 2,
        ..TaskQuery::default()
    })
    .await;
    assert_eq!(ids(&first), all[..2]);
    assert_eq!(
        (first[1].task_type.as_str(), first[1].status),
        ("Transfer", TaskStatus::Completed)
    );
    assert_eq!(
        (first[1].created_at, first[1].updated_at),
        (made[1].created_at, made[1].updated_at)
    );
    assert_eq!(
        (first[1].version, &first[1].failure),
        (made[1].version, &made[1].failure)
    );
    let next = list(TaskQuery {
        before: Some(all[1]),
        ..TaskQuery::default()
    })
    .await;
    assert_eq!(ids(&next), all[2..]);
    assert_eq!(
        ids(&list(TaskQuery {
            tenant: Some(Tenant("acme".into())),
            ..TaskQuery::default()
        })
        .await),
        odd
    );
    assert_eq!(
        ids(&list(TaskQuery {
            task_type: Some("Transfer".into()),
            ..TaskQuery::default()
        })
        .await),
        odd
    );
    assert_eq!(
        ids(&list(TaskQuery {
            statuses: vec![TaskStatus::Completed],
            ..TaskQuery::default()
        })
        .await),
        odd
    );
    let none = TaskQuery {
        statuses: vec![TaskStatus::Failed],
        ..TaskQuery::default()
    };
    assert_eq!(list(none).await, []);
    assert_eq!(store.list(&TaskQuery::default()).await.unwrap().lines, []);
}

async fn revisions(store: &Store, of: RevisionsOf) -> Vec<(TaskId, Rev)> {
    let before = revisions_at(store, &of).await;
    let read = revisions_at(store, &of).await;
    assert!(before.now <= read.now);
    let each = read.tasks.into_iter().map(|it| (it.task, it.rev));
    each.collect()
}

async fn revisions_at(store: &Store, of: &RevisionsOf) -> Revisions {
    store.revisions(of).await.unwrap()
}

pub(crate) async fn the_revisions_of_tasks_are_read_together(ports: &Ports) {
    let store = &ports.store;
    let one = submitted(store, row(new_task())).await;
    let other = claimed(store, MINUTE).await;
    let asked = vec![other.task.id, new_task(), one.task.id];
    let mut found = revisions(store, RevisionsOf::Tasks(asked.clone())).await;
    found.sort_unstable();
    let mut expected = [&one, &other].map(|record| (record.task.id, record.task.rev));
    expected.sort_unstable();
    assert_ne!(expected[0].1, expected[1].1);
    assert_eq!(found, expected);
    assert_eq!(revisions(store, RevisionsOf::Tasks(Vec::new())).await, []);
    let of = |tenant: Tenant| revisions(store, RevisionsOf::TaskOf(tenant, one.task.id));
    assert_eq!(of(Tenant::default()).await, [(one.task.id, one.task.rev)]);
    assert_eq!(of(Tenant("other".into())).await, []);
    let lines = store.lines(&asked).await.unwrap();
    let mut lines: Vec<_> = lines.iter().map(|line| (line.task, line.rev)).collect();
    lines.sort_unstable();
    assert_eq!(lines, expected);
}

pub(crate) async fn tasks_are_open_or_have_ended_since(ports: &Ports) {
    let store = &ports.store;
    let open = |tenant: Tenant| revisions(store, RevisionsOf::Open(tenant));
    assert_eq!(open(Tenant::default()).await, []);
    let (mut going, mut gone) = (Vec::new(), Vec::new());
    for status in TaskStatus::ALL {
        let record = resting(store, *status, None).await;
        let revision = (record.task.id, record.task.rev);
        if status.is_terminal() {
            let mut change = after(&record);
            write_of(&mut change).finished = Time::In(Duration::ZERO);
            commit(store, free(&record), &change).await.unwrap();
            gone.push((revision.0, load(store, revision.0).await));
        } else {
            going.push(revision);
        }
    }
    let mut found = open(Tenant::default()).await;
    found.sort_unstable();
    going.sort_unstable();
    assert_eq!(found, going);
    assert_eq!(open(Tenant("other".into())).await, []);

    let ended = |tenant: Option<Tenant>, task_type: &str, after, limit| {
        let task_types = vec!["None".to_owned(), task_type.to_owned()];
        RevisionsOf::Ended {
            tenant,
            task_types,
            after,
            limit,
        }
    };
    let task_type = gone[0].1.task.task_type.clone();
    let first = (DbTime(0), TaskId(uuid::Uuid::nil()));
    let (mut after, mut pages) = (first, Vec::new());
    loop {
        let page = ended(Some(Tenant::default()), &task_type, after, 3);
        let page = revisions_at(store, &page).await.tasks;
        let Some(last) = page.last() else { break };
        after = (last.at, last.task);
        pages.extend(page);
    }
    let expected: Vec<_> = gone
        .iter()
        .map(|(task, record)| TaskRevision {
            task: *task,
            rev: record.task.rev,
            at: record.task.finished_at.expect("it has ended"),
        })
        .collect();
    assert_eq!(pages, expected);
    let all = |tenant: &str, of: &str, after| ended(Some(Tenant(tenant.into())), of, after, 100);
    let default = Tenant::default().0;
    let since = (expected[1].at, expected[1].task);
    let later = revisions_at(store, &all(&default, &task_type, since)).await;
    assert_eq!(later.tasks, expected[2..]);
    let of_all = revisions_at(store, &ended(None, &task_type, since, 100)).await;
    assert_eq!(of_all.tasks, expected[2..], "of all tenants");
    for nothing in [
        all("other", &task_type, first),
        all(&default, "Other", first),
    ] {
        assert_eq!(revisions_at(store, &nothing).await.tasks, []);
    }
}

pub(crate) async fn parked_tasks_are_read_in_the_order_of_their_last_change(ports: &Ports) {
    let store = &ports.store;
    let mut parked = Vec::new();
    for status in TaskStatus::ALL.iter().chain(&[TaskStatus::DeadLettered]) {
        let record = resting(store, *status, None).await;
        if status.is_parked() {
            parked.push(record);
        }
    }
    // One that was parked before the others, and has changed since.
    commit(store, free(&parked[0]), &after(&parked[0]))
        .await
        .unwrap();
    let task_type = parked[0].task.task_type.clone();
    let mut expected = Vec::new();
    for record in parked[1..].iter().chain(&parked[..1]) {
        let record = load(store, record.task.id).await;
        expected.push(TaskRevision {
            task: record.task.id,
            rev: record.task.rev,
            at: record.task.updated_at,
        });
    }
    assert!(expected.is_sorted_by_key(|it| it.at));
    expected.sort_unstable_by_key(|it| (it.at, it.task));
    let first = (DbTime(0), TaskId(uuid::Uuid::nil()));
    let of = |task_type: &str, after, limit| {
        let others = ("None".to_owned(), first);
        RevisionsOf::Parked {
            after: [others, (task_type.to_owned(), after)].into(),
            limit,
        }
    };
    let (mut after, mut pages) = (first, Vec::new());
    loop {
        let page = revisions_at(store, &of(&task_type, after, 2)).await.tasks;
        let Some(last) = page.last() else { break };
        after = (last.at, last.task);
        pages.extend(page);
    }
    assert_eq!(pages, expected);
    let others = revisions_at(store, &of("Other", first, 100)).await;
    assert_eq!(others.tasks, []);
    let none = RevisionsOf::Parked {
        after: BTreeMap::new(),
        limit: 100,
    };
    assert_eq!(revisions_at(store, &none).await.tasks, []);
}

pub(crate) async fn tasks_in_flight_are_counted_by_what_they_were_submitted_under(ports: &Ports) {
    let store = &ports.store;
    assert_eq!(store.in_flight().await.unwrap(), []);
    let first = submitted(store, row(new_task())).await.task.id;
    claimed(store, MINUTE).await;
    let parked = resting(store, TaskStatus::DeadLettered, None).await.task.id;
    for ended in [
        TaskStatus::Completed,
        TaskStatus::Failed,
        TaskStatus::Cancelled,
        TaskStatus::Resolved,
    ] {
        resting(store, ended, None).await;
    }
    let changed = submitted(
        store,
        TaskRow {
            definition_hash: "other".into(),
            ..row(new_task())
        },
    )
    .await
    .task
    .id;
    let newer = submitted(
        store,
        TaskRow {
            version: 2,
            ..row(new_task())
        },
    )
    .await
    .task
    .id;
    let elsewhere = submitted(
        store,
        TaskRow {
            queue: "other".into(),
            ..row(new_task())
        },
    )
    .await
    .task
    .id;
    let zip = known()[0].clone();
    let on = |queue: &str, of, count, example| InFlight {
        of,
        queue: Some(QueueName(queue.to_owned())),
        count,
        example,
    };
    let queue = row(new_task()).queue;
    let group = |of, count, example| on(&queue, of, count, example);
    let expected = [
        InFlight {
            queue: None,
            ..group(zip.clone(), 1, parked)
        },
        group(zip.clone(), 2, first),
        on("other", zip.clone(), 1, elsewhere),
        group(
            KnownType {
                definition: "other".to_owned(),
                ..zip.clone()
            },
            1,
            changed,
        ),
        group(KnownType { version: 2, ..zip }, 1, newer),
    ];
    assert_eq!(store.in_flight().await.unwrap(), expected);
}

pub(crate) async fn take(store: &Store, older_than: Duration) -> Vec<OutboxRow> {
    store
        .outbox(OutboxOp::Take {
            older_than,
            limit: 10,
        })
        .await
        .unwrap()
}

/// A new task, the submission of which is told to others.
pub(crate) async fn told(store: &Store) -> (Transition, DbTime) {
    let mut change = submit(row(new_task()));
    change.events = (1..=3).map(|seq| event(change.task_id, seq)).collect();
    let at = commit(store, NEW, &change).await.unwrap().now;
    (change, at)
}

pub(crate) async fn a_relay_takes_the_events_of_each_change_once_until_they_are_published(
    ports: &Ports,
) {
    let store = &ports.store;
    let ((first, at), (second, _)) = (told(store).await, told(store).await);
    // Messages for hosts stand in no outbox.
    submitted(store, row(new_task())).await;
    assert_eq!(take(store, MINUTE).await, []);
    let one = store
        .outbox(OutboxOp::Take {
            older_than: Duration::ZERO,
            limit: 1,
        })
        .await
        .unwrap();
    assert_eq!((one[0].at, &one[0].events), (at, &first.events));
    // The first is hidden from other relays for a while.
    let two = take(store, Duration::ZERO).await;
    assert_eq!(
        two.iter().map(|row| &row.events).collect::<Vec<_>>(),
        [&second.events]
    );
    assert_eq!(take(store, Duration::ZERO).await, []);
    assert!(
        store
            .gauges(&[])
            .await
            .unwrap()
            .oldest_unpublished
            .is_some()
    );
    let ids = vec![one[0].id, two[0].id];
    assert_eq!(
        store
            .outbox(OutboxOp::Published(ids.clone()))
            .await
            .unwrap(),
        []
    );
    assert_eq!(store.outbox(OutboxOp::Published(ids)).await.unwrap(), []);
    assert_eq!(store.gauges(&[]).await.unwrap().oldest_unpublished, None);
}

pub(crate) async fn what_is_published_of_a_change_leaves_the_others_in_the_outbox(ports: &Ports) {
    let store = &ports.store;
    let ((change, _), (other, _)) = (told(store).await, told(store).await);
    assert_eq!(
        store
            .outbox(OutboxOp::PublishedOf(vec![change.change_id, new_change()]))
            .await
            .unwrap(),
        []
    );
    let left = take(store, Duration::ZERO).await;
    assert_eq!(
        left.iter().map(|row| &row.events).collect::<Vec<_>>(),
        [&other.events]
    );
}

pub(crate) async fn poison_is_kept_once_until_a_person_removes_it(ports: &Ports) {
    let store = &ports.store;
    let queue = QueueName("files".into());
    for (bytes, reason) in [(70_000, "no JSON \0"), (1, "again")] {
        let payload = vec![b'x'; bytes].into();
        let (source, subject) = ("work/1".into(), "work.files.Zip.v1".into());
        let poison = Poison::new(source, subject, &payload, reason.into());
        poison::keep(store, &queue, &poison).await.unwrap();
    }
    assert_eq!(take(store, Duration::ZERO).await, []);
    let [kept] = &poison::list(store).await.unwrap()[..] else {
        panic!("one message");
    };
    assert_eq!(
        (&*kept.queue, &*kept.source, &*kept.subject),
        ("files", "work/1", "work.files.Zip.v1")
    );
    assert_eq!(
        (kept.payload.len(), kept.size_bytes, &*kept.reason),
        (64 * 1024, 70_000, "no JSON \0")
    );
    let remove = || poison::remove(store, &kept.id, "client:kim");
    assert!(remove().await.unwrap());
    assert!(!remove().await.unwrap());
    assert_eq!(poison::list(store).await.unwrap(), []);
}

pub(crate) async fn a_queue_keeps_1000_poison_messages_and_counts_the_others(ports: &Ports) {
    let store = &ports.store;
    let keep = async |queue: &str, number: u32| {
        let (source, reason) = (format!("{queue}/{number}"), format!("no JSON {number}"));
        let poison = Poison::new(source, "work".into(), &vec![b'x'].into(), reason);
        let queue = QueueName(queue.to_owned());
        poison::keep(store, &queue, &poison).await.unwrap();
    };
    for number in 0..1_010 {
        keep("files", number).await;
    }
    // Each comes again: those that are kept are not counted.
    keep("files", 7).await;
    keep("notes", 7).await;
    let listed = async || poison::list(store).await.unwrap();
    let found = listed().await;
    let counts: Vec<_> = found.iter().filter(|it| it.source.is_empty()).collect();
    let [count] = counts[..] else {
        panic!("one that counts: {counts:?}");
    };
    assert_eq!(count.queue, "files");
    let expected =
        "10 more messages were not kept, since the queue had 1000; the last one: no JSON 1009";
    assert_eq!(count.reason, expected);
    let of_others = |it: &&PoisonView| it.queue == "notes";
    assert_eq!(found.iter().filter(of_others).count(), 1);

    // A person removes one and the count: there is room for one more.
    let kept = found.iter().find(|it| it.source == "files/999");
    for id in [&kept.expect("the last that was kept").id, &count.id] {
        assert!(poison::remove(store, id, "client:kim").await.unwrap());
        assert!(!poison::remove(store, id, "client:kim").await.unwrap());
    }
    for number in [2_000, 2_001] {
        keep("files", number).await;
    }
    let found = listed().await;
    assert!(found.iter().any(|it| it.source == "files/2000"));
    assert!(found.iter().all(|it| it.source != "files/2001"));
    assert!(
        found
            .iter()
            .any(|it| it.reason.starts_with("1 more messages"))
    );
}
