//! The rows of task types, and how many of their consecutive tasks failed.

use super::changes::*;
use counterstep_contracts::{Rev, TaskStatus, Tenant};
use counterstep_kernel::admission::disable::COUNTED;
use counterstep_kernel::change::transition::Time;
use counterstep_kernel::ports::{
    Disabled, DocumentChange, DocumentKind, DocumentWrite, FailureQuery, Ports, Store, TypeRow,
    WaitingQuery,
};
use counterstep_kernel::record::Failure;
use counterstep_steps::times::DbTime;
use std::time::Duration;

fn open() -> TypeRow {
    TypeRow {
        name: "Zip".to_owned(),
        disabled: None,
        reason: "ä\u{1}".to_owned(),
        by: "operator:ada".to_owned(),
        counts_from: None,
        rev: Rev(1),
    }
}

pub(crate) async fn a_type_comes_back_as_it_was_written(ports: &Ports) {
    let store = &ports.store;
    let read = store.types().await.unwrap();
    assert!(
        read.now > DbTime(0) && read.rows.is_empty(),
        "the clock comes without a type, too"
    );
    let mut row = open();
    assert!(store.put_type(&row).await.unwrap());
    let first = store.types().await.unwrap().rows.remove(0).rev;
    row.rev = first;
    assert_eq!(store.types().await.unwrap().rows, [row.clone()]);
    let at = |seconds: i64| DbTime(read.now.0 + seconds * 1_000_000);
    row.disabled = Some(Disabled {
        since: at(0),
        probe_from: Some(at(5)),
        probe: Some((new_task(), at(6))),
    });
    (row.counts_from, row.rev) = (Some(at(-7)), first.next());
    assert!(store.put_type(&row).await.unwrap());
    assert_eq!(store.types().await.unwrap().rows, [row.clone()]);
    row.disabled = Some(Disabled {
        since: at(0),
        probe_from: None,
        probe: None,
    });
    row.rev = Rev(first.0 + 2);
    assert!(store.put_type(&row).await.unwrap());
    let other = TypeRow {
        name: "Another".to_owned(),
        ..open()
    };
    assert!(store.put_type(&other).await.unwrap());
    let rows = store.types().await.unwrap().rows;
    let names: Vec<_> = rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(
        (names.as_slice(), &rows[1]),
        (["Another", "Zip"].as_slice(), &row)
    );
}

pub(crate) async fn a_type_that_cannot_be_read_counts_as_disabled_and_stops_no_other(
    ports: &Ports,
) {
    let store = &ports.store;
    let other = TypeRow {
        name: "Another".to_owned(),
        ..open()
    };
    assert!(store.put_type(&other).await.unwrap());
    let write = DocumentWrite {
        kind: DocumentKind::TaskType,
        tenant: Tenant::default(),
        name: "Zip".to_owned(),
        expected: None,
        change: DocumentChange::Put {
            body: r#"{"disabled":"of a newer form"}"#.to_owned(),
            due_at: None,
        },
    };
    let now = store
        .put_document(&write)
        .await
        .unwrap()
        .expect("it is written");
    let rows = store.types().await.unwrap().rows;
    let other = TypeRow {
        rev: rows[0].rev,
        ..other
    };
    assert_eq!(rows[0], other);
    assert_eq!(
        rows[1].disabled,
        Some(Disabled {
            since: now,
            probe_from: None,
            probe: None
        }),
        "{rows:?}"
    );
    let enabled = TypeRow {
        rev: rows[1].rev.next(),
        ..open()
    };
    assert!(store.put_type(&enabled).await.unwrap());
    assert_eq!(store.types().await.unwrap().rows, [other, enabled]);
}

pub(crate) async fn a_type_changes_only_from_the_revision_that_was_read(ports: &Ports) {
    let store = &ports.store;
    let row = open();
    assert!(
        !store
            .put_type(&TypeRow {
                rev: Rev(2),
                ..open()
            })
            .await
            .unwrap()
    );
    assert!(store.put_type(&row).await.unwrap());
    let first = store.types().await.unwrap().rows.remove(0).rev.0;
    for (rev, taken) in [
        (1, false),
        (first + 2, false),
        (first + 1, true),
        (first + 1, false),
    ] {
        let row = TypeRow {
            rev: Rev(rev),
            ..row.clone()
        };
        assert_eq!(store.put_type(&row).await.unwrap(), taken, "{rev}");
    }
    let racing = TypeRow {
        rev: Rev(first + 2),
        ..row
    };
    let wins = futures::future::join_all((0..20).map(|_| store.put_type(&racing))).await;
    assert_eq!(
        wins.into_iter()
            .filter(|won| *won.as_ref().unwrap())
            .count(),
        1
    );
}

fn query() -> FailureQuery {
    FailureQuery {
        tenant: Tenant::default(),
        task_type: "Zip".to_owned(),
        classes: COUNTED,
        within: MINUTE * 10,
        counts_from: None,
        at_most: 10,
    }
}

/// A task that ends like this.
async fn ended(store: &Store, task_type: &str, status: TaskStatus) {
    ended_by(store, task_type, status, "worker:1").await;
}

async fn ended_by(store: &Store, task_type: &str, status: TaskStatus, actor: &str) {
    ended_for(store, task_type, status, (actor, "transient")).await;
}

async fn ended_for(store: &Store, task_type: &str, status: TaskStatus, by: (&str, &str)) {
    ended_of(store, (&Tenant::default(), task_type), status, by).await;
}

async fn ended_of(
    store: &Store,
    (tenant, task_type): (&Tenant, &str),
    status: TaskStatus,
    (actor, class): (&str, &str),
) {
    let mut new = row(new_task());
    new.tenant = tenant.clone();
    (new.status, new.task_type) = (status, task_type.to_owned());
    // A message may repeat what a client has sent.
    let message = r#"{"class":"lost"} and "class":"transient""#.to_owned();
    new.failure = Some(Failure {
        step: Some("make".to_owned()),
        class: class.to_owned(),
        message,
        ..Failure::default()
    });
    let mut change = submit(new);
    change.audit[0].actor = actor.to_owned();
    if status.is_terminal() {
        write_of(&mut change).finished = Time::In(Duration::ZERO);
    }
    commit(store, NEW, &change).await.expect("a task");
}

pub(crate) async fn failures_are_counted_since_the_last_success(ports: &Ports) {
    let store = &ports.store;
    let query = query();
    let count = || async { store.failures(&query).await.unwrap() };
    assert_eq!(count().await, 0);
    for status in [
        TaskStatus::Failed,
        TaskStatus::DeadLettered,
        TaskStatus::CompensationFailed,
    ] {
        ended(store, "Zip", status).await;
    }
    // Neither of these is one.
    for status in [
        TaskStatus::Cancelled,
        TaskStatus::Resolved,
        TaskStatus::Running,
    ] {
        ended(store, "Zip", status).await;
    }
    ended(store, "Another", TaskStatus::Failed).await;
    // Nor what people undo or leave parked.
    ended_by(store, "Zip", TaskStatus::Failed, "operator:ada").await;
    ended_by(store, "Zip", TaskStatus::CompensationFailed, "operator").await;
    // Nor what its client has brought about.
    for (status, class) in [
        (TaskStatus::Failed, "permanent"),
        (TaskStatus::DeadLettered, "deadline"),
    ] {
        ended_for(store, "Zip", status, ("worker:1", class)).await;
    }
    // Nor what blocks a task that something else has turned.
    let mut parked = row(new_task());
    (parked.status, parked.task_type) = (TaskStatus::CompensationFailed, "Zip".to_owned());
    parked.failure = Some(Failure {
        class: "permanent".to_owned(),
        blocked_by: Some(Box::new(Failure {
            class: "transient".to_owned(),
            ..Failure::default()
        })),
        ..Failure::default()
    });
    commit(store, NEW, &submit(parked)).await.expect("a task");
    assert_eq!(count().await, 3);
    let other = FailureQuery {
        tenant: Tenant("another".to_owned()),
        ..query.clone()
    };
    assert_eq!(
        store.failures(&other).await.unwrap(),
        0,
        "of another tenant"
    );
    let few = FailureQuery {
        at_most: 1,
        ..query.clone()
    };
    assert!(
        (1..=2).contains(&store.failures(&few).await.unwrap()),
        "more need not be counted"
    );

    ended(store, "Another", TaskStatus::Completed).await;
    assert_eq!(count().await, 3, "of another type");
    ended(store, "Zip", TaskStatus::Completed).await;
    assert_eq!(count().await, 0);
    // A failure within the same step of the clock is none since then.
    super::a_moment_later(store).await;
    ended(store, "Zip", TaskStatus::Failed).await;
    assert_eq!(count().await, 1);

    let now = store.types().await.unwrap().now;
    let later = FailureQuery {
        counts_from: Some(now),
        ..query.clone()
    };
    assert_eq!(store.failures(&later).await.unwrap(), 0, "from before");
    super::a_moment_later(store).await;
    let recent = FailureQuery {
        within: Duration::from_millis(1),
        ..query.clone()
    };
    assert_eq!(store.failures(&recent).await.unwrap(), 0, "too long ago");
    let ever = FailureQuery {
        within: Duration::MAX,
        ..query.clone()
    };
    assert_eq!(store.failures(&ever).await.unwrap(), 1, "at any time");
}

pub(crate) async fn tenants_are_found_of_which_a_task_has_failed(ports: &Ports) {
    let store = &ports.store;
    let found = |within| async move {
        let found = store.failing_tenants("Zip", within).await.unwrap();
        found.into_iter().map(|of| of.0).collect::<Vec<_>>()
    };
    assert!(found(Duration::MAX).await.is_empty());
    for (tenant, task_type, status) in [
        ("a", "Zip", TaskStatus::Failed),
        ("b", "Another", TaskStatus::Failed),
        ("c", "Zip", TaskStatus::Completed),
        ("d", "Zip", TaskStatus::DeadLettered),
        ("e", "Zip", TaskStatus::CompensationFailed),
        ("f", "Zip", TaskStatus::Resolved),
        ("a", "Zip", TaskStatus::Running),
    ] {
        let mut new = row(new_task());
        (new.status, new.task_type) = (status, task_type.to_owned());
        new.tenant = Tenant(tenant.to_owned());
        let mut change = submit(new);
        if status.is_terminal() {
            write_of(&mut change).finished = Time::In(Duration::ZERO);
        }
        commit(store, NEW, &change).await.expect("a task");
    }
    assert_eq!(found(Duration::from_secs(3600)).await, ["a", "d", "e"]);
    super::a_moment_later(store).await;
    assert!(found(Duration::from_millis(1)).await.is_empty());
}

pub(crate) async fn parked_tasks_of_others_hide_no_failure(ports: &Ports) {
    let store = &ports.store;
    for _ in 0..5 {
        ended(store, "Zip", TaskStatus::DeadLettered).await;
    }
    let other = Tenant("another".to_owned());
    for _ in 0..1_000 {
        let by = ("worker:1", "transient");
        ended_of(store, (&other, "Zip"), TaskStatus::DeadLettered, by).await;
    }
    assert_eq!(store.failures(&query()).await.unwrap(), 5);
}

pub(crate) async fn waiting_tasks_are_counted_by_tenant_and_type(ports: &Ports) {
    let store = &ports.store;
    let query = |tenant: &str, task_type: Option<&str>, at_most| WaitingQuery {
        tenant: Tenant(tenant.to_owned()),
        task_type: task_type.map(str::to_owned),
        at_most,
    };
    let tenant = Tenant::default().0;
    for (task_type, status) in [
        ("Zip", TaskStatus::Submitted),
        ("Zip", TaskStatus::Dispatched),
        ("Another", TaskStatus::Dispatched),
        ("Zip", TaskStatus::Running),
        ("Zip", TaskStatus::Waiting),
        ("Zip", TaskStatus::Completed),
    ] {
        ended(store, task_type, status).await;
    }
    for (query, expected) in [
        (query(&tenant, None, 100), 3),
        (query(&tenant, Some("Zip"), 100), 2),
        (query(&tenant, Some("Unknown"), 100), 0),
        (query("another", None, 100), 0),
        (query(&tenant, None, 2), 2),
    ] {
        assert_eq!(store.waiting(&query).await.unwrap(), expected, "{query:?}");
    }
}
