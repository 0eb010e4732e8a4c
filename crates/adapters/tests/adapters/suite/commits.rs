//! Commits: guards, leases, times, and all or nothing.

use super::changes::*;
use counterstep_contracts::{
    AuditSeq, Epoch, Rev, StepNo, StepStatus, TaskStatus, Tenant, WaitReason,
};
use counterstep_kernel::change::transition::{
    Guard, IdempotencyWrite, LeaseChange, Time, Transition,
};
use counterstep_kernel::ports::{
    CommitError, DocumentChange, DocumentKind, DocumentQuery, DocumentWrite, Heartbeat, OutboxOp,
    Ports, StoreError,
};
use counterstep_kernel::record::{
    Failure, History, SignalRow, StepFailure, StepRow, TaskRecord, UndoGoal,
};
use counterstep_steps::times::DbTime;
use futures::future::join_all;
use serde_json::json;
use std::time::Duration;

pub(crate) async fn a_wrong_epoch_is_fenced_and_a_wrong_revision_is_stale(ports: &Ports) {
    let store = &ports.store;
    let record = claimed(store, MINUTE).await;
    let (rev, epoch) = (record.task.rev, record.task.epoch);

    let fenced = commit(
        store,
        Guard::Lease {
            epoch: Epoch(0),
            rev,
        },
        &after(&record),
    )
    .await;
    assert!(
        matches!(fenced, Err(CommitError::Fenced { current }) if current == epoch),
        "{fenced:?}"
    );
    // The epoch is looked at first: who is fenced must stop, not reload.
    let both = commit(
        store,
        Guard::Lease {
            epoch: Epoch(7),
            rev: Rev(9),
        },
        &after(&record),
    )
    .await;
    assert!(matches!(both, Err(CommitError::Fenced { .. })), "{both:?}");
    let stale = commit(store, Guard::Lease { epoch, rev: Rev(1) }, &after(&record)).await;
    assert!(matches!(stale, Err(CommitError::Stale)), "{stale:?}");
    let stale = commit(store, Guard::Free { rev: Rev(1) }, &after(&record)).await;
    assert!(matches!(stale, Err(CommitError::Stale)), "{stale:?}");
    assert_eq!(load(store, record.task.id).await.task, record.task);

    commit(store, leased(&record), &after(&record))
        .await
        .unwrap();
    assert_eq!(load(store, record.task.id).await.task.rev, rev.next());
}

pub(crate) async fn a_lease_on_a_task_that_is_not_there_is_fenced(ports: &Ports) {
    let guard = Guard::Lease {
        epoch: Epoch(1),
        rev: Rev(1),
    };
    let mut row = row(new_task());
    row.rev = Rev(2);
    let fenced = commit(&ports.store, guard, &of(row)).await;
    assert!(
        matches!(fenced, Err(CommitError::Fenced { .. })),
        "{fenced:?}"
    );
}

pub(crate) async fn a_task_is_inserted_once(ports: &Ports) {
    let store = &ports.store;
    let record = submitted(store, row(new_task())).await;
    let again = commit(store, NEW, &submit(row(record.task.id))).await;
    assert!(matches!(again, Err(CommitError::Stale)), "{again:?}");
    let mut unknown = row(new_task());
    unknown.rev = Rev(2);
    let missing = commit(store, Guard::Free { rev: Rev(1) }, &of(unknown)).await;
    assert!(matches!(missing, Err(CommitError::Stale)), "{missing:?}");
}

pub(crate) async fn a_live_lease_cannot_be_taken_and_an_expired_one_can(ports: &Ports) {
    let store = &ports.store;
    let record = claimed(store, MINUTE).await;
    assert!(record.lease_is_live());
    let second = commit(store, free(&record), &claim(&record, "two", MINUTE)).await;
    assert!(matches!(second, Err(CommitError::Stale)), "{second:?}");

    let record = claimed(store, Duration::ZERO).await;
    assert!(record.lease_has_expired());
    commit(store, free(&record), &claim(&record, "two", MINUTE))
        .await
        .unwrap();
    let taken = load(store, record.task.id).await;
    assert_eq!(
        (taken.task.lease_owner.as_deref(), taken.task.epoch),
        (Some("two"), Epoch(2))
    );
    assert!(taken.lease_is_live());
}

pub(crate) async fn a_holder_may_take_its_own_lease_again(ports: &Ports) {
    let store = &ports.store;
    let record = claimed(store, MINUTE).await;
    let mut change = after(&record);
    write_of(&mut change).lease = LeaseChange::Take {
        owner: "one".to_owned(),
        ttl: 2 * MINUTE,
    };
    commit(store, leased(&record), &change).await.unwrap();
    assert!(load(store, record.task.id).await.task.lease_expires_at > record.task.lease_expires_at);
}

pub(crate) async fn a_take_back_needs_a_lease_that_ran_out(ports: &Ports) {
    let store = &ports.store;
    let take_back = |record: &_| {
        let mut change = after(record);
        let write = write_of(&mut change);
        write.row.epoch = write.row.epoch.next();
        write.row.status = TaskStatus::Dispatched;
        write.lease = LeaseChange::Release;
        write.needs_expired_lease = true;
        change
    };
    let live = claimed(store, MINUTE).await;
    let refused = commit(store, free(&live), &take_back(&live)).await;
    assert!(matches!(refused, Err(CommitError::Stale)), "{refused:?}");
    let unowned = submitted(store, row(new_task())).await;
    let refused = commit(store, free(&unowned), &take_back(&unowned)).await;
    assert!(matches!(refused, Err(CommitError::Stale)), "{refused:?}");
    let lost = claimed(store, Duration::ZERO).await;
    commit(store, free(&lost), &take_back(&lost)).await.unwrap();
}

pub(crate) async fn a_release_clears_the_lease(ports: &Ports) {
    let store = &ports.store;
    let record = claimed(store, MINUTE).await;
    let mut change = after(&record);
    write_of(&mut change).lease = LeaseChange::Release;
    commit(store, leased(&record), &change).await.unwrap();
    let released = load(store, record.task.id).await.task;
    assert_eq!(
        (released.lease_owner, released.lease_expires_at),
        (None, None)
    );
}

pub(crate) async fn a_record_comes_back_as_it_was_written(ports: &Ports) {
    let store = &ports.store;
    let mut written = row(new_task());
    written.tenant = Tenant("acme".to_owned());
    written.version = u32::MAX;
    written.status = TaskStatus::Waiting;
    written.waiting = Some(WaitReason::Breaker);
    written.goal = Some(UndoGoal::Cancelled);
    written.recovery_attempts = 3;
    written.audit_seq = AuditSeq(8);
    written.request =
        json!({"text": "'ä\u{1F980}\"\\", "deep": [[1.5, null, true, -9_007_199_254_740_993_i64]]});
    written.response = Some(json!([]));
    written.failure = Some(Failure {
        step: Some("zip".into()),
        class: "permanent".into(),
        message: "no".into(),
        ..Failure::default()
    });
    written.residue = true;
    written.sweep_at = Some(DbTime(1_795_000_000_654_321));
    written.traceparent =
        Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned());
    let mut step = StepRow::pending(StepNo(2), "upload");
    step.status = StepStatus::InDoubt;
    step.output = Some(json!({"n": 1}));
    step.attempts = counterstep_contracts::Attempt(4);
    step.retries_used = 2;
    step.undo_attempts = counterstep_contracts::Attempt(5);
    step.undo_retries_used = 1;
    step.attempt_open = true;
    step.started_seq = Some(AuditSeq(6));
    step.error = Some(StepFailure {
        class: "transient".into(),
        message: "a\nb".into(),
        ..StepFailure::default()
    });
    step.due_at = Some(DbTime(1_795_000_000_123_456));
    step.signal = Some(SignalRow {
        body: json!({"by": "\u{1F980}", "none": null}),
        actor: "client:anna".to_owned(),
        at: DbTime(1_795_000_000_000_001),
    });
    step.in_fallback = true;
    let mut change = of(written.clone());
    change.steps = vec![step.clone(), StepRow::pending(StepNo(1), "zip")];
    let change = recorded(store, change, None);
    let committed = commit(store, NEW, &change).await.unwrap();

    let read = load(store, written.id).await;
    let link = &change
        .journal
        .as_ref()
        .expect("a row of the journal")
        .link
        .0;
    written.audit_seal = Some(counterstep_kernel::audit::seal(link, committed.now));
    written.created_at = committed.now;
    written.updated_at = committed.now;
    written.change_id = change.change_id;
    assert_eq!(*read.task, written);
    assert_eq!(read.steps, [StepRow::pending(StepNo(1), "zip"), step]);
    assert!(read.now >= committed.now);
    assert_eq!(store.load(new_task()).await.unwrap(), None);

    // A value that becomes none is none, and a step is written whole.
    let mut next = after(&read);
    let write = write_of(&mut next);
    write.row.failure = None;
    write.row.waiting = None;
    let mut step = read.steps[1].clone();
    step.error = None;
    step.output = None;
    next.steps = vec![step.clone()];
    commit(store, free(&read), &next).await.unwrap();
    let read = load(store, read.task.id).await;
    assert_eq!((read.task.failure, read.task.waiting), (None, None));
    assert_eq!(read.steps[1], step);
}

pub(crate) async fn relative_times_start_from_the_databases_now(ports: &Ports) {
    let store = &ports.store;
    let mut change = submit(row(new_task()));
    let write = write_of(&mut change);
    write.due = Time::In(Duration::from_micros(5));
    write.deadline = Time::In(MINUTE);
    write.finished = Time::In(Duration::ZERO);
    let now = commit(store, NEW, &change).await.unwrap().now.0;
    let record = load(store, change.task_id).await;
    assert_eq!(record.task.due_at.unwrap().0, now + 5);
    assert_eq!(record.task.deadline_at.unwrap().0, now + 60_000_000);
    assert_eq!(record.task.finished_at.unwrap().0, now);

    let mut change = after(&record);
    // What the row itself says of times counts for nothing.
    write_of(&mut change).row.deadline_at = None;
    write_of(&mut change).row.lease_owner = Some("a host".to_owned());
    write_of(&mut change).due = Time::Clear;
    commit(store, free(&record), &change).await.unwrap();
    let kept = load(store, change.task_id).await.task;
    assert_eq!(
        (kept.due_at, kept.deadline_at),
        (None, record.task.deadline_at)
    );
    assert_eq!(
        (kept.lease_owner, kept.created_at),
        (None, record.task.created_at)
    );

    let mut change = after(&load(store, change.task_id).await);
    write_of(&mut change).deadline = Time::In(Duration::MAX);
    commit(store, Guard::Free { rev: Rev(2) }, &change)
        .await
        .unwrap();
}

pub(crate) async fn a_cancel_request_is_set_once_and_stays(ports: &Ports) {
    let store = &ports.store;
    let record = submitted(store, row(new_task())).await;
    let mut change = after(&record);
    write_of(&mut change).cancel_requested = Time::In(Duration::ZERO);
    commit(store, free(&record), &change).await.unwrap();
    let first = load(store, record.task.id).await;
    assert!(first.task.cancel_requested_at.is_some());
    let mut change = after(&first);
    write_of(&mut change).cancel_requested = Time::In(MINUTE);
    commit(store, free(&first), &change).await.unwrap();
    assert_eq!(
        load(store, record.task.id).await.task.cancel_requested_at,
        first.task.cancel_requested_at
    );
}

pub(crate) async fn a_change_whose_last_part_fails_leaves_nothing(ports: &Ports) {
    let store = &ports.store;
    let begin = |task| {
        let mut change = nothing(task);
        change.idempotency = Some(IdempotencyWrite::Begin {
            tenant: Tenant::default(),
            key: "k".to_owned(),
            owner: "api:1".to_owned(),
            expires_in: MINUTE,
        });
        change
    };
    commit(store, NEW, &begin(new_task())).await.unwrap();

    let record = submitted(store, row(new_task())).await;
    let before = (
        record.task.clone(),
        record.steps.clone(),
        store.history(record.task.id).await.unwrap(),
    );
    let mut change = claim(&record, "one", MINUTE);
    let row = &mut write_of(&mut change).row;
    row.audit_seq = AuditSeq(2);
    change.audit = vec![audit(&row.clone(), "claimed")];
    change.steps = vec![StepRow {
        status: StepStatus::Running,
        ..record.steps[0].clone()
    }];
    change.attempts = vec![start(1, Epoch(1), MINUTE)];
    change.events = vec![event(record.task.id, 2)];
    change.idempotency = begin(record.task.id).idempotency;
    let refused = commit(store, free(&record), &change).await;
    assert!(matches!(refused, Err(CommitError::KeyTaken)), "{refused:?}");

    let now = load(store, record.task.id).await;
    assert_eq!(
        (
            now.task,
            now.steps,
            store.history(record.task.id).await.unwrap()
        ),
        before
    );
    let events = store
        .outbox(OutboxOp::Take {
            older_than: Duration::ZERO,
            limit: 10,
        })
        .await
        .unwrap();
    assert_eq!(events, []);

    // A new task that fails is not there at all.
    let mut change = submit(super::changes::row(new_task()));
    change.idempotency = begin(change.task_id).idempotency;
    assert!(commit(store, NEW, &change).await.is_err());
    assert_eq!(store.load(change.task_id).await.unwrap(), None);
    assert_eq!(
        store.history(change.task_id).await.unwrap(),
        History::default()
    );
}

pub(crate) async fn a_receive_leaves_a_task_that_exists_alone(ports: &Ports) {
    let store = &ports.store;
    let record = submitted(store, row(new_task())).await;
    let late = commit(store, NEW, &nothing(record.task.id)).await;
    assert!(matches!(late, Err(CommitError::Stale)), "{late:?}");
    let unguarded = commit(store, free(&record), &nothing(record.task.id)).await;
    assert!(
        matches!(unguarded, Err(CommitError::Store(StoreError::Corrupt(_)))),
        "{unguarded:?}"
    );
}

pub(crate) async fn a_row_that_skips_a_revision_is_refused(ports: &Ports) {
    let store = &ports.store;
    let record = submitted(store, row(new_task())).await;
    for rev in [record.task.rev, Rev(9)] {
        let mut change = after(&record);
        write_of(&mut change).row.rev = rev;
        let refused = commit(store, free(&record), &change).await;
        assert!(
            matches!(refused, Err(CommitError::Store(StoreError::Corrupt(_)))),
            "{refused:?}"
        );
    }
}

pub(crate) async fn a_heartbeat_prolongs_and_tells_of_a_cancel(ports: &Ports) {
    let store = &ports.store;
    let record = claimed(store, MINUTE).await;
    let (task, epoch) = (record.task.id, record.task.epoch);
    let held = store.heartbeat(task, epoch, 5 * MINUTE).await.unwrap();
    assert_eq!(
        held,
        Heartbeat::Held {
            cancel_requested: false
        }
    );
    let longer = load(store, task).await;
    assert_eq!(
        (longer.task.rev, longer.task.updated_at),
        (record.task.rev, record.task.updated_at)
    );
    assert!(
        longer.task.lease_expires_at.unwrap().0
            >= record.task.lease_expires_at.unwrap().0 + 200_000_000
    );

    let mut change = after(&longer);
    write_of(&mut change).cancel_requested = Time::In(Duration::ZERO);
    commit(store, free(&longer), &change).await.unwrap();
    let held = store.heartbeat(task, epoch, MINUTE).await.unwrap();
    assert_eq!(
        held,
        Heartbeat::Held {
            cancel_requested: true
        }
    );
    assert_eq!(
        store.heartbeat(task, Epoch(0), MINUTE).await.unwrap(),
        Heartbeat::Lost
    );
    assert_eq!(
        store.heartbeat(new_task(), Epoch(0), MINUTE).await.unwrap(),
        Heartbeat::Lost
    );

    let cancelled = load(store, task).await;
    let mut release = after(&cancelled);
    write_of(&mut release).lease = LeaseChange::Release;
    commit(store, leased(&cancelled), &release).await.unwrap();
    assert_eq!(
        store.heartbeat(task, epoch, MINUTE).await.unwrap(),
        Heartbeat::Lost
    );
}

pub(crate) async fn of_fifty_racing_claims_one_wins_each_task(ports: &Ports) {
    let store = &ports.store;
    for _ in 0..3 {
        let record = submitted(store, row(new_task())).await;
        let claims: Vec<_> = (0..50)
            .map(|n| claim(&record, &format!("host-{n}"), MINUTE))
            .collect();
        let results = join_all(
            claims
                .iter()
                .map(|claim| commit(store, free(&record), claim)),
        )
        .await;
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
        assert!(
            results
                .iter()
                .all(|result| matches!(result, Ok(_) | Err(CommitError::Stale))),
            "{results:?}"
        );
    }
}

pub(crate) async fn an_alert_is_written_with_its_change_and_once(ports: &Ports) {
    let store = &ports.store;
    let installation = || Tenant(":installation".to_owned());
    let alert = |body: &str| {
        Some(Box::new(DocumentWrite {
            kind: DocumentKind::Webhook,
            tenant: installation(),
            name: "dead_lettered_7".to_owned(),
            expected: Some(Rev(0)),
            change: DocumentChange::Put {
                body: body.to_owned(),
                due_at: None,
            },
        }))
    };
    let found = || async {
        let query = DocumentQuery::Page {
            kind: DocumentKind::Webhook,
            tenant: installation(),
            after: None,
            limit: 10,
        };
        let rows = store.documents(&query).await.unwrap().rows.into_iter();
        rows.map(|row| (row.body, row.rev)).collect::<Vec<_>>()
    };
    let one = submitted(store, row(new_task())).await;
    let two = submitted(store, row(new_task())).await;
    let change = |record: &TaskRecord, body: &str| Transition {
        alert: alert(body),
        ..after(record)
    };
    let stale = Guard::Free { rev: Rev(7) };
    let refused = commit(store, stale, &change(&one, "0")).await;
    assert!(refused.is_err());
    assert_eq!(found().await, [], "there is no change");
    let mut seen = Vec::new();
    for (record, body) in [(&one, "1"), (&two, "2")] {
        commit(store, free(record), &change(record, body))
            .await
            .expect("a change");
        seen.push(found().await);
    }
    let bodies = |rows: &[(String, Rev)]| rows.iter().map(|row| row.0.clone()).collect::<Vec<_>>();
    assert_eq!(bodies(&seen[0]), ["1"]);
    assert_eq!(seen[1], seen[0], "not even its revision has changed");
}
