//! Tasks that other tasks submit: written with the change of their parent, counted, listed, and the
//! wake of a task that sleeps for them.

use super::changes::*;
use counterstep_contracts::{ParentRef, StepNo, TaskId, TaskStatus, WaitReason};
use counterstep_kernel::change::transition::{LeaseChange, Time, Transition};
use counterstep_kernel::ports::{ChildQuery, CommitError, Find, KnownType, Ports, Store, Touched};
use counterstep_kernel::record::{Failure, TaskRecord, TaskRow};
use std::collections::BTreeMap;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

/// The first change of a child with this number.
pub(super) fn child(parent: &TaskRecord, step: i32, no: u32) -> Transition {
    whole(None, submit(row_of_child(parent, step, no)))
}

fn row_of_child(parent: &TaskRecord, step: i32, no: u32) -> TaskRow {
    TaskRow {
        parent: Some(ParentRef {
            task: parent.task.id,
            step: StepNo(step),
            no,
            depth: 1,
        }),
        ..row(new_task())
    }
}

/// A change of a claimed task that submits these and puts the task to sleep for an hour.
pub(super) async fn submitting(parent: &TaskRecord, children: Vec<Transition>) -> Transition {
    let mut change = after(parent);
    let write = write_of(&mut change);
    write.row.status = TaskStatus::Waiting;
    write.row.waiting = Some(WaitReason::Children);
    write.lease = LeaseChange::Release;
    write.due = Time::In(HOUR);
    change.children = children;
    change
}

/// A task that sleeps, with this number of children of its first step.
pub(crate) async fn family(store: &Store, children: u32) -> (TaskRecord, Vec<TaskId>) {
    let parent = claimed(store, MINUTE).await;
    let children: Vec<_> = (0..children).map(|no| child(&parent, 1, no)).collect();
    let ids = children.iter().map(|change| change.task_id).collect();
    let change = submitting(&parent, children).await;
    commit(store, leased(&parent), &change).await.unwrap();
    (load(store, parent.task.id).await, ids)
}

/// The task of a step of a task that is there.
async fn below(store: &Store, parent: TaskId) -> TaskId {
    let offered = load(store, parent).await;
    let change = claim(&offered, "worker", MINUTE);
    commit(store, free(&offered), &change).await.unwrap();
    let parent = load(store, parent).await;
    let new = child(&parent, 1, 0);
    let id = new.task_id;
    let change = submitting(&parent, vec![new]).await;
    commit(store, leased(&parent), &change).await.unwrap();
    id
}

/// Brings a task to this end, as of a failure where it failed.
pub(crate) async fn end_of(store: &Store, task: TaskId, status: TaskStatus) -> TaskRecord {
    let record = load(store, task).await;
    let mut change = after(&record);
    let write = write_of(&mut change);
    write.row.status = status;
    write.row.waiting = None;
    write.due = Time::Clear;
    write.finished = if status.is_terminal() {
        Time::In(Duration::ZERO)
    } else {
        Time::Clear
    };
    write.row.failure = (status == TaskStatus::Failed).then(|| Failure {
        step: None,
        class: "permanent".to_owned(),
        message: "it broke".to_owned(),
        ..Failure::default()
    });
    commit(store, free(&record), &change).await.unwrap();
    load(store, task).await
}

/// Ends with effects that were not undone.
async fn end_with_residue(store: &Store, task: TaskId) {
    let record = load(store, task).await;
    let mut change = after(&record);
    let write = write_of(&mut change);
    (write.row.status, write.row.residue) = (TaskStatus::Failed, true);
    write.finished = Time::In(Duration::ZERO);
    commit(store, free(&record), &change).await.unwrap();
}

fn query(parent: TaskId) -> ChildQuery {
    ChildQuery {
        parent,
        step: None,
        statuses: Vec::new(),
        after: None,
        limit: 100,
    }
}

async fn listed(store: &Store, query: &ChildQuery) -> Vec<TaskId> {
    let lines = store.children(query).await.unwrap();
    lines.into_iter().map(|line| line.task).collect()
}

pub(crate) async fn children_are_written_with_their_parent_or_not_at_all(ports: &Ports) {
    let store = &ports.store;
    let (parent, ids) = family(store, 3).await;
    assert_eq!(parent.task.status, TaskStatus::Waiting);
    for (no, id) in (0..).zip(&ids) {
        let record = load(store, *id).await;
        let of = record.task.parent.expect("its parent");
        assert_eq!((of.task, of.step, of.no), (parent.task.id, StepNo(1), no));
        assert_eq!(of.depth, 1);
        assert_eq!(record.task.status, TaskStatus::Dispatched);
    }
    // Of a change that is fenced, none is there.
    let other = claimed(store, MINUTE).await;
    let new = child(&other, 1, 0);
    let id = new.task_id;
    let mut stale = other.clone();
    stale.task.epoch.0 -= 1;
    let change = submitting(&other, vec![new]).await;
    let refused = commit(store, leased(&stale), &change).await;
    assert!(
        matches!(refused, Err(CommitError::Fenced { .. })),
        "{refused:?}"
    );
    assert_eq!(store.load(id).await.unwrap(), None);
    assert_eq!(listed(store, &query(other.task.id)).await, []);
    // Nor of one whose place is taken: then the parent stays as it was, too.
    let twice = vec![child(&other, 1, 0), child(&other, 1, 0)];
    let change = submitting(&other, twice).await;
    assert!(commit(store, leased(&other), &change).await.is_err());
    assert_eq!(load(store, other.task.id).await.task.rev, other.task.rev);
    assert_eq!(listed(store, &query(other.task.id)).await, []);
}

pub(crate) async fn children_are_counted_and_listed_by_step_state_and_place(ports: &Ports) {
    let store = &ports.store;
    let parent = claimed(store, MINUTE).await;
    let of = |step, no| child(&parent, step, no);
    let children = vec![of(2, 1), of(2, 0), of(1, 0)];
    let ids: Vec<TaskId> = children.iter().map(|change| change.task_id).collect();
    let change = submitting(&parent, children).await;
    commit(store, leased(&parent), &change).await.unwrap();
    let (of_others, _) = family(store, 1).await;
    let in_order = [ids[2], ids[1], ids[0]];
    let all = query(parent.task.id);
    assert_eq!(listed(store, &all).await, in_order);
    let second = ChildQuery {
        step: Some(StepNo(2)),
        ..all.clone()
    };
    assert_eq!(listed(store, &second).await, [ids[1], ids[0]]);
    let paged = ChildQuery {
        after: Some((StepNo(1), 0)),
        limit: 1,
        ..all.clone()
    };
    assert_eq!(listed(store, &paged).await, [ids[1]]);

    end_of(store, ids[0], TaskStatus::Failed).await;
    end_with_residue(store, ids[2]).await;
    let failed = ChildQuery {
        statuses: vec![TaskStatus::Failed, TaskStatus::Cancelled],
        ..all
    };
    let lines = store.children(&failed).await.unwrap();
    assert_eq!(lines.len(), 2);
    assert_eq!((lines[1].task, lines[1].no), (ids[0], 1));
    assert_eq!(lines[1].task_type, "Zip");
    let message = lines[1].failure.as_ref().map(|it| it.message.as_str());
    assert_eq!(message, Some("it broke"));
    let mut counts: Vec<_> = store.child_counts(parent.task.id).await.unwrap();
    counts.sort_by_key(|count| (count.step, count.status));
    let counts: Vec<_> = counts
        .iter()
        .map(|count| (count.step.0, count.status, count.tasks, count.residue))
        .collect();
    assert_eq!(
        counts,
        [
            (1, TaskStatus::Failed, 1, true),
            (2, TaskStatus::Dispatched, 1, false),
            (2, TaskStatus::Failed, 1, false)
        ]
    );
    let counts = store.child_counts(of_others.task.id).await.unwrap();
    assert_eq!(counts.len(), 1);
    assert_eq!(store.child_counts(new_task()).await.unwrap(), []);
}

pub(crate) async fn completed_children_are_in_flight_as_long_as_they_may_be_undone(ports: &Ports) {
    let store = &ports.store;
    let counts = async || {
        // Those that wait on a queue and those that have completed are groups of their own.
        let mut by_name = BTreeMap::<String, u64>::new();
        for group in store.in_flight().await.unwrap() {
            *by_name.entry(group.of.name).or_default() += group.count;
        }
        by_name.into_iter().collect::<Vec<_>>()
    };
    let named = |counts: &[(&str, u64)]| {
        let counts = counts.iter();
        counts
            .map(|(name, count)| ((*name).to_owned(), *count))
            .collect::<Vec<_>>()
    };
    let child = |parent: &TaskRecord, task_type: &str, no| {
        let row = TaskRow {
            task_type: task_type.to_owned(),
            ..row_of_child(parent, 1, no)
        };
        whole(None, submit(row))
    };
    let parent = claimed(store, MINUTE).await;
    let children: Vec<_> = (0..3).map(|no| child(&parent, "Child", no)).collect();
    let ids: Vec<TaskId> = children.iter().map(|change| change.task_id).collect();
    let change = submitting(&parent, children).await;
    commit(store, leased(&parent), &change).await.unwrap();
    // One of them has a child of its own.
    let record = load(store, ids[0]).await;
    let below = child(&record, "Grandchild", 0);
    let id_below = below.task_id;
    let mut change = after(&record);
    change.children = vec![below];
    commit(store, free(&record), &change).await.unwrap();
    let all = named(&[("Child", 3), ("Grandchild", 1), ("Zip", 1)]);
    assert_eq!(counts().await, all);

    for completed in [id_below, ids[0], ids[1]] {
        end_of(store, completed, TaskStatus::Completed).await;
    }
    assert_eq!(counts().await, all, "their parent may yet be undone");
    // No undo reaches one that has failed.
    end_of(store, ids[2], TaskStatus::Failed).await;
    let two = named(&[("Child", 2), ("Grandchild", 1), ("Zip", 1)]);
    assert_eq!(counts().await, two);
    end_of(store, parent.task.id, TaskStatus::Completed).await;
    assert_eq!(counts().await, []);
}

pub(crate) async fn those_above_tasks_are_found_the_topmost_first(ports: &Ports) {
    let store = &ports.store;
    let (top, middle) = family(store, 2).await;
    let low = below(store, middle[0]).await;
    let lowest = below(store, low).await;
    let (_, of_others) = family(store, 1).await;
    let top = top.task.id;
    for (tasks, above) in [
        (vec![], vec![]),
        (vec![new_task()], vec![]),
        (vec![top], vec![]),
        (vec![lowest], vec![top, middle[0], low]),
        (vec![middle[1], lowest, low], vec![top, middle[0], low]),
    ] {
        assert_eq!(store.above(&tasks).await.unwrap(), above, "{tasks:?}");
    }
    let of_both = store.above(&[low, of_others[0]]).await.unwrap();
    assert_eq!(of_both.len(), 3);
    assert_eq!(of_both[0], top, "it is above one of the others");
}

pub(crate) async fn a_wake_makes_a_sleeping_task_due_and_changes_nothing_else(ports: &Ports) {
    let store = &ports.store;
    let (asleep, _) = family(store, 1).await;
    let before = asleep.task.clone();
    let woken = store.wake(before.id).await.unwrap();
    let expected = Touched {
        task: before.id,
        task_type: before.task_type.clone(),
        version: Some(before.version),
        rev: before.rev,
        queue: before.queue.clone(),
        traceparent: None,
    };
    assert_eq!(woken, Some(expected));
    let after = load(store, before.id).await;
    assert!(after.due_in().is_zero());
    let due_at = after.task.due_at;
    assert_eq!(TaskRow { due_at, ..*before }, *after.task);
    assert_eq!(store.wake(after.task.id).await.unwrap(), None, "it is due");

    // One that waits for something else sleeps on.
    let other = claimed(store, MINUTE).await;
    let mut change = submitting(&other, Vec::new()).await;
    write_of(&mut change).row.waiting = Some(WaitReason::Retry);
    commit(store, leased(&other), &change).await.unwrap();
    assert_eq!(store.wake(other.task.id).await.unwrap(), None);

    let held = claimed(store, MINUTE).await;
    assert_eq!(
        store.wake(held.task.id).await.unwrap(),
        None,
        "a host has it"
    );
    let offered = submitted(store, row(new_task())).await;
    assert_eq!(store.wake(offered.task.id).await.unwrap(), None);
    assert_eq!(store.wake(new_task()).await.unwrap(), None);
}

pub(crate) async fn sleeping_tasks_are_found_of_which_a_child_has_ended(ports: &Ports) {
    let store = &ports.store;
    let known = |name: &str| {
        vec![KnownType {
            name: name.to_owned(),
            version: 1,
            definition: "hash".to_owned(),
        }]
    };
    let find = async |name: &str| {
        let found = store.find(&Find::Parents(known(name)), 10).await.unwrap();
        found.into_iter().map(|due| due.task).collect::<Vec<_>>()
    };
    let (first, of_first) = family(store, 2).await;
    let (_second, of_second) = family(store, 1).await;
    assert_eq!(find("Zip").await, []);
    end_of(store, of_first[1], TaskStatus::Completed).await;
    // A person has to decide about this one: it has not ended.
    end_of(store, of_second[0], TaskStatus::DeadLettered).await;
    assert_eq!(find("Zip").await, [first.task.id]);
    assert_eq!(find("Other").await, []);
    store.wake(first.task.id).await.unwrap();
    assert_eq!(find("Zip").await, [], "it is awake");
}
