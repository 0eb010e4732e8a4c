//! The rows of schedules: what is found, and that of many who fire one due time one does.

use super::changes::*;
use counterstep_contracts::{Rev, ScheduleOrigin, ScheduleSpec, TaskId, Tenant};
use counterstep_kernel::change::transition::{Guard, Transition};
use counterstep_kernel::documents::schedule_write;
use counterstep_kernel::ports::{
    CommitError, Ports, ScheduleQuery, ScheduleRow, Store, StoreError,
};
use counterstep_steps::times::DbTime;
use futures::future::join_all;

const SECOND: i64 = 1_000_000;

fn new(name: &str, due: Option<DbTime>) -> ScheduleRow {
    let spec = ScheduleSpec {
        cron: Some("* * * * *".to_owned()),
        ..ScheduleSpec::of("Zip")
    };
    let mut row = ScheduleRow::new(Tenant::default(), name.to_owned(), spec, DbTime(9 * SECOND));
    (row.next_due_at, row.rev) = (due, Rev(1));
    row
}

async fn change(store: &Store, row: &ScheduleRow) -> Result<bool, StoreError> {
    store.put_schedule(row).await
}

async fn put(store: &Store, row: &ScheduleRow) {
    assert!(change(store, row).await.unwrap(), "{row:?}");
}

async fn now(store: &Store) -> DbTime {
    let nothing = ScheduleQuery::Named {
        tenant: Tenant::default(),
        names: Vec::new(),
    };
    store.schedules(&nothing).await.unwrap().now
}

async fn named(store: &Store, name: &str) -> Option<ScheduleRow> {
    let query = ScheduleQuery::Named {
        tenant: Tenant::default(),
        names: vec![name.to_owned()],
    };
    store.schedules(&query).await.unwrap().rows.pop()
}

fn at(now: DbTime, seconds: i64) -> Option<DbTime> {
    Some(DbTime(now.0 + seconds * SECOND))
}

pub(crate) async fn a_schedule_comes_back_as_it_was_written(ports: &Ports) {
    let store = &ports.store;
    assert!(
        now(store).await > DbTime(0),
        "the clock comes without a schedule, too"
    );
    let mut row = new("nightly", at(now(store).await, 3600));
    row.origin = ScheduleOrigin::Code;
    row.paused = true;
    (row.last_due_at, row.last_task) = (Some(DbTime(7 * SECOND)), Some(new_task()));
    row.spec.request = serde_json::json!({"files": ["ä\u{0}"], "deep": {"n": 1e17}});
    put(store, &row).await;
    let read = named(store, "nightly").await.expect("a row");
    assert!(read.updated_at > row.updated_at, "by the database's clock");
    let same = ScheduleRow {
        updated_at: row.updated_at,
        rev: row.rev,
        ..read.clone()
    };
    assert_eq!(same, row);

    let mut next = read.clone();
    next.rev = read.rev.next();
    (
        next.paused,
        next.next_due_at,
        next.last_due_at,
        next.last_task,
    ) = (false, None, None, None);
    put(store, &next).await;
    let again = named(store, "nightly").await.expect("a row");
    assert_eq!(
        (again.created_at, again.next_due_at, again.last_task),
        (read.created_at, None, None)
    );
    assert!(!again.paused && again.rev == next.rev);
}

pub(crate) async fn a_schedule_changes_only_from_the_revision_that_was_read(ports: &Ports) {
    let store = &ports.store;
    let row = new("nightly", None);
    put(store, &row).await;
    assert!(!change(store, &row).await.unwrap(), "it is there");
    let first = named(store, "nightly").await.expect("a row").rev.0;
    for rev in [0, first, first + 2] {
        assert!(
            !change(
                store,
                &ScheduleRow {
                    rev: Rev(rev),
                    ..row.clone()
                }
            )
            .await
            .unwrap(),
            "{rev}"
        );
    }
    assert!(
        !change(
            store,
            &ScheduleRow {
                rev: Rev(2),
                ..new("another", None)
            }
        )
        .await
        .unwrap(),
        "there is none"
    );
    let tenant = Tenant::default();
    let delete = async |rev| {
        store
            .delete_schedule(&tenant, "nightly", Rev(rev))
            .await
            .unwrap()
    };
    assert!(!delete(first + 1).await);
    assert!(delete(first).await);
    assert!(!delete(first).await, "it is gone");
    assert_eq!(named(store, "nightly").await, None);
}

pub(crate) async fn due_schedules_are_those_that_this_program_may_fire(ports: &Ports) {
    let store = &ports.store;
    let now = now(store).await;
    for (name, due) in [
        ("later", 3600),
        ("older", -20),
        ("newer", -10),
        ("paused", -30),
        ("elsewhere", -40),
    ] {
        let mut row = new(name, at(now, due));
        row.paused = name == "paused";
        if name == "elsewhere" {
            "Unknown".clone_into(&mut row.spec.task_type);
        }
        put(store, &row).await;
    }
    put(store, &new("never", None)).await;
    for (name, due) in [("ours", -5), ("theirs", -50)] {
        put(
            store,
            &ScheduleRow {
                origin: ScheduleOrigin::Code,
                ..new(name, at(now, due))
            },
        )
        .await;
    }
    let find = async |declared: &[&str], limit| {
        let declared = declared.iter().map(|name| (*name).to_owned()).collect();
        let due = ScheduleQuery::Due {
            types: vec!["Zip".to_owned()],
            declared,
            after: None,
            limit,
        };
        let rows = store.schedules(&due).await.unwrap().rows;
        rows.into_iter().map(|row| row.name).collect::<Vec<_>>()
    };
    assert_eq!(find(&["ours"], 10).await, ["older", "newer", "ours"]);
    assert_eq!(find(&[], 1).await, ["older"]);
}

pub(crate) async fn due_schedules_go_on_behind_the_last_of_a_page(ports: &Ports) {
    let store = &ports.store;
    let now = now(store).await;
    let other = Tenant("other".to_owned());
    for (name, due) in [
        ("c", -30),
        ("b", -20),
        ("a", -20),
        ("d", -10),
        ("later", 3600),
    ] {
        put(store, &new(name, at(now, due))).await;
    }
    put(
        store,
        &ScheduleRow {
            tenant: other,
            ..new("b", at(now, -20))
        },
    )
    .await;
    let mut after = None;
    let mut pages = Vec::new();
    loop {
        let types = vec!["Zip".to_owned()];
        let due = ScheduleQuery::Due {
            types,
            declared: Vec::new(),
            after,
            limit: 2,
        };
        let page = store.schedules(&due).await.unwrap();
        pages.push(
            page.rows
                .into_iter()
                .map(|row| row.name)
                .collect::<Vec<_>>()
                .concat(),
        );
        let Some(last) = page.last else { break };
        after = Some(last);
    }
    // By due time, then tenant, then name: the default tenant's come first.
    assert_eq!(pages, ["ca", "bb", "d"]);
}

pub(crate) async fn schedules_page_by_name_within_their_tenant(ports: &Ports) {
    let store = &ports.store;
    for name in ["b", "c", "a"] {
        put(store, &new(name, None)).await;
    }
    let other = Tenant("other".to_owned());
    put(
        store,
        &ScheduleRow {
            tenant: other.clone(),
            ..new("a", None)
        },
    )
    .await;
    let page = async |tenant: &Tenant, after: Option<&str>, limit| {
        let query = ScheduleQuery::Page {
            tenant: tenant.clone(),
            after: after.map(str::to_owned),
            limit,
        };
        let rows = store.schedules(&query).await.unwrap().rows;
        rows.into_iter().map(|row| row.name).collect::<Vec<_>>()
    };
    assert_eq!(page(&Tenant::default(), None, 2).await, ["a", "b"]);
    assert_eq!(page(&Tenant::default(), Some("b"), 2).await, ["c"]);
    assert_eq!(page(&other, None, 2).await, ["a"]);
}

/// A submission that fires a schedule as it was read.
fn firing(row: &ScheduleRow, task: TaskId) -> Transition {
    let mut row = row.clone();
    row.rev = row.rev.next();
    row.last_due_at = row.next_due_at;
    row.next_due_at = row.next_due_at.map(|due| DbTime(due.0 + SECOND));
    row.last_task = Some(task);
    let write = schedule_write(&row).expect("a schedule can be written");
    Transition {
        document: Some(Box::new(write)),
        ..submit(super::changes::row(task))
    }
}

async fn fire(store: &Store, row: &ScheduleRow, task: TaskId) -> Result<(), CommitError> {
    super::changes::commit(store, Guard::Free { rev: Rev(0) }, &firing(row, task))
        .await
        .map(drop)
}

pub(crate) async fn a_due_time_and_its_task_are_written_together_or_not_at_all(ports: &Ports) {
    let store = &ports.store;
    put(store, &new("nightly", at(now(store).await, -1))).await;
    let read = named(store, "nightly").await.expect("a row");
    let task = new_task();
    fire(store, &read, task).await.unwrap();
    let fired = named(store, "nightly").await.expect("a row");
    assert_eq!(
        (fired.rev, fired.last_task, fired.last_due_at),
        (read.rev.next(), Some(task), read.next_due_at)
    );
    assert!(store.load(task).await.unwrap().is_some());

    // From an older reading: nothing of it is written.
    let late = new_task();
    let refused = fire(store, &read, late).await;
    assert!(matches!(refused, Err(CommitError::Moved)), "{refused:?}");
    assert_eq!(store.load(late).await.unwrap(), None);
    assert_eq!(named(store, "nightly").await, Some(fired.clone()));
    // The task is refused: the schedule stays.
    let twice = fire(store, &fired, task).await;
    assert!(matches!(twice, Err(CommitError::Stale)), "{twice:?}");
    assert_eq!(named(store, "nightly").await, Some(fired.clone()));
    // It is gone.
    assert!(
        store
            .delete_schedule(&Tenant::default(), "nightly", fired.rev)
            .await
            .unwrap()
    );
    let gone = fire(store, &fired, late).await;
    assert!(matches!(gone, Err(CommitError::Moved)), "{gone:?}");
    assert_eq!(store.load(late).await.unwrap(), None);
}

pub(crate) async fn of_fifty_racing_firings_one_happens(ports: &Ports) {
    let store = &ports.store;
    put(store, &new("nightly", at(now(store).await, -1))).await;
    let read = named(store, "nightly").await.expect("a row");
    let tasks: Vec<_> = (0..50).map(|_| new_task()).collect();
    let fired = join_all(tasks.iter().map(|task| fire(store, &read, *task))).await;
    let won: Vec<_> = tasks
        .iter()
        .zip(&fired)
        .filter(|(_, fired)| fired.is_ok())
        .map(|(task, _)| *task)
        .collect();
    assert_eq!(won.len(), 1, "{fired:?}");
    assert!(
        fired
            .iter()
            .all(|fired| matches!(fired, Ok(()) | Err(CommitError::Moved))),
        "{fired:?}"
    );
    assert_eq!(
        named(store, "nightly").await.expect("a row").last_task,
        Some(won[0])
    );
    for task in tasks {
        assert_eq!(store.load(task).await.unwrap().is_some(), task == won[0]);
    }
}
