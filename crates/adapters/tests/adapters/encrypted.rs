//! The contract of a store, behind what encrypts payloads; and what becomes of tasks whose key is gone.

mod plaintext;

use crate::embedded::{self, Fixture};
use crate::suite::chain as chains;
use crate::suite::changes::*;
use crate::suite::logs::log_row;
use counterstep_adapters::payload_keys::{EncryptedPayloads, PayloadKey, PayloadKeys, TenantKeys};
use counterstep_contracts::cause::Origin;
use counterstep_contracts::{AuditSeq, Keep, Outcome, StepNo, TaskId, TaskStatus, Tenant};
use counterstep_kernel::change::transition::Time;
use counterstep_kernel::draft::sweep;
use counterstep_kernel::ports::{
    ENCRYPTED, EndedTask, FailureFilter, JournalPage, Lane, LoadFor, LogRow, PayloadCodec,
    PayloadError, Store, StoreError, TaskQuery,
};
use counterstep_kernel::record::{Failure, SignalRow, StepFailure, StepRow, TaskRecord};
use counterstep_kernel::{Engine, EngineSettings};
use counterstep_reconciler::RetentionSettings;
use counterstep_reconciler::audit::Scope;
use counterstep_reconciler::fsck::fsck;
use counterstep_reconciler::retention::{self, PurgeGroup, PurgePlan};
use counterstep_steps::times::DbTime;
use counterstep_steps::{CancelToken, Registry};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// The same keys for all tenants.
#[derive(Debug)]
struct Keys(Arc<TenantKeys>);

impl PayloadKeys for Keys {
    fn of(&self, _: &Tenant) -> Result<Arc<TenantKeys>, PayloadError> {
        Ok(self.0.clone())
    }
}

/// In front of a store, with one key or none; `erased`: there were others before.
fn behind(store: &Store, key: Option<u8>, erased: bool) -> Store {
    with_keys(store, key.as_slice(), erased)
}

/// The same with several keys, the newest first.
fn with_keys(store: &Store, keys: &[u8], erased: bool) -> Store {
    let keys = keys.iter().map(|byte| PayloadKey::new([*byte; 32]));
    let keys = Keys(Arc::new(TenantKeys {
        keys: keys.collect(),
        erased,
        ..TenantKeys::default()
    }));
    let codec = Arc::new(EncryptedPayloads::new(keys)) as Arc<dyn PayloadCodec>;
    store.clone().with_codec(Some(codec))
}

pub(crate) async fn fixture() -> Fixture {
    let mut fixture = embedded::fixture().await;
    fixture.ports.store = behind(&fixture.ports.store, Some(1), false);
    fixture
}

crate::store_cases!(crate::encrypted::fixture);

const WORDS: &str = "my own words";

/// A task with payloads of each kind, in this state.
async fn planted(store: &Store, status: TaskStatus) -> TaskId {
    let said = || StepFailure {
        class: "permanent".to_owned(),
        message: WORDS.to_owned(),
        ..StepFailure::default()
    };
    let mut change = submit(row(new_task()));
    let write = change.task.as_mut().expect("a row");
    (write.row.request, write.row.response) = (json!({"name": WORDS}), Some(json!([WORDS])));
    write.row.status = status;
    write.row.failure = Some(Failure {
        step: None,
        class: "permanent".to_owned(),
        message: WORDS.to_owned(),
        blocked_by: Some(Box::new(Failure {
            class: "permanent".to_owned(),
            message: WORDS.to_owned(),
            origin: Some(Box::new(Origin::call("the-bank", "POST"))),
            ..Failure::default()
        })),
        ..Failure::default()
    });
    if status.is_terminal() {
        write.finished = Time::In(Duration::ZERO);
    }
    let mut step = StepRow::pending(StepNo(1), "zip");
    (step.output, step.error) = (Some(json!(WORDS)), Some(said()));
    step.signal = Some(SignalRow {
        body: json!({"word": WORDS}),
        actor: "anna".to_owned(),
        at: DbTime(1),
    });
    change.steps = vec![step];
    let events = ["submitted", "step_failed", "signal_received"];
    let row = &mut change.task.as_mut().expect("a row").row;
    change.audit.clear();
    for event in events {
        row.audit_seq = AuditSeq(i64::try_from(change.audit.len()).unwrap() + 1);
        let mut entry = audit(row, event);
        if event != events[0] {
            (entry.from, entry.details) = (Some(status), json!({"error": WORDS}));
        }
        change.audit.push(entry);
    }
    let change = recorded(store, change, None);
    commit(store, NEW, &change).await.expect("a change");
    let record = load(store, change.task_id).await;
    let row = LogRow {
        body: json!([{"message": WORDS}]).to_string(),
        ..log_row(1, 1, 1, 40)
    };
    crate::suite::logs::add(store, &record, &row).await;
    change.task_id
}

#[tokio::test]
async fn nothing_that_was_handed_in_stands_in_the_rows() {
    let fixture = fixture().await;
    let store = &fixture.ports.store;
    let task = planted(store, TaskStatus::Failed).await;
    let page = JournalPage {
        task: Some(task.to_string()),
        after: None,
        limit: 9,
        lane: Lane::People,
    };
    for row in store.journal(&page).await.unwrap() {
        let says = format!("{}{:?}", row.entries, row.data);
        assert!(!says.contains(WORDS) && says.contains(ENCRYPTED), "{says}");
    }
    let file = crate::sqlite::file(&fixture);
    let stands = |path: &std::path::Path| {
        let stored = std::fs::read(path).unwrap();
        stored.windows(8).any(|bytes| bytes == b"the-bank")
    };
    let is_clear = stands(&file) || stands(&file.with_extension("db-wal"));
    assert!(is_clear, "the cause stands beside it");
    for path in [file.clone(), file.with_extension("db-wal")] {
        let stored = std::fs::read(&path).unwrap();
        let found = stored
            .windows(WORDS.len())
            .any(|bytes| bytes == WORDS.as_bytes());
        assert!(!found, "{}", path.display());
    }
    let read = load(store, task).await;
    let step = &read.steps[0];
    assert_eq!(read.task.request, json!({"name": WORDS}));
    assert_eq!(read.task.response, Some(json!([WORDS])));
    let failure = read.task.failure.as_ref().unwrap();
    assert_eq!(failure.message, WORDS);
    assert_eq!(failure.blocking().message, WORDS);
    assert_eq!(step.output, Some(json!(WORDS)));
    assert_eq!(step.signal.as_ref().unwrap().body, json!({"word": WORDS}));
    assert_eq!(step.error.as_ref().unwrap().message, WORDS);
    let log = store.log(task).await.unwrap();
    assert!(log[0].body.contains(WORDS), "{log:?}");
    let history = store.history(task).await.unwrap();
    assert_eq!(history.audit[1].entry.details, json!({"error": WORDS}));
    assert_eq!(history.audit[2].entry.details, json!({"error": WORDS}));
}

async fn checked(store: &Store) -> u64 {
    let (verified, found) = chains::check(store, &Scope::default()).await;
    assert_eq!((verified.tasks, found), (2, vec![]));
    let registry = Registry::new();
    let mut found = Vec::new();
    let mut keep = |finding| found.push(finding);
    let checked = fsck(store, &registry, None, &Scope::default(), &mut keep).await;
    let newer = checked.expect("it can be checked").newer;
    assert_eq!(found, []);
    newer
}

#[tokio::test]
async fn what_has_ended_is_erased_with_its_key_and_the_rest_is_left_alone() {
    let fixture = fixture().await;
    let store = &fixture.ports.store;
    let ended = planted(store, TaskStatus::Failed).await;
    let open = planted(store, TaskStatus::Dispatched).await;
    let inner = embedded::open_in(fixture.folder.path(), embedded::options())
        .await
        .store;
    for (what, store) in [
        ("deleted", behind(&inner, None, true)),
        ("deleted, and another made", behind(&inner, Some(2), true)),
    ] {
        let refused = store.load(open).await;
        assert!(
            matches!(refused, Err(StoreError::Unsupported(_))),
            "{what}: {refused:?}"
        );
        let refused = store.salvage(open).await;
        assert!(
            matches!(refused, Err(StoreError::Unsupported(_))),
            "{what}: {refused:?}"
        );
        let read = store.load(ended).await.unwrap().unwrap();
        assert_eq!(
            (&read.task.request, &read.task.response),
            (&Value::Null, &None),
            "{what}"
        );
        assert_eq!(
            (&read.steps[0].output, &read.steps[0].signal),
            (&None, &None),
            "{what}"
        );
        let failure = read.task.failure.clone().unwrap().message;
        assert!(failure.contains("erased"), "{what}: {failure}");
        let history = store.history(ended).await.unwrap();
        assert!(
            history.audit.iter().all(|row| row.entry.details.is_null()),
            "{what}"
        );
        assert_eq!(checked(&store).await, 1, "{what}");
        // A sweep writes back what it cannot read, whichever way it has read the task.
        let records = store.records(&[ended], LoadFor::State).await.unwrap();
        let (_, Ok(record)) = records.into_iter().next().unwrap() else {
            panic!("{what}: it is read");
        };
        sweep_of(&store, &record).await;
        sweep_of(&store, &load(&store, ended).await).await;
        assert_eq!(checked(&store).await, 1, "{what}");
    }
}

async fn sweep_of(store: &Store, record: &TaskRecord) {
    let (guard, change) = sweep(record, Vec::new(), new_change(), "test");
    store
        .commit(guard, change.clone())
        .await
        .expect("it is written");
}

#[tokio::test]
async fn tasks_whose_key_is_missing_here_are_left_to_others_as_they_are() {
    let fixture = fixture().await;
    let store = &fixture.ports.store;
    let ended = planted(store, TaskStatus::Failed).await;
    let open = planted(store, TaskStatus::Dispatched).await;
    let inner = embedded::open_in(fixture.folder.path(), embedded::options())
        .await
        .store;
    let none = inner.clone().with_codec(None);
    for (what, store) in [
        ("not there", behind(&inner, None, false)),
        ("another one", behind(&inner, Some(2), false)),
        ("no keys at all", none),
    ] {
        for task in [ended, open] {
            let refused = store.load(task).await;
            assert!(
                matches!(refused, Err(StoreError::Unsupported(_))),
                "{what}: {refused:?}"
            );
            let refused = store.salvage(task).await;
            assert!(
                matches!(refused, Err(StoreError::Unsupported(_))),
                "{what}: {refused:?}"
            );
            let records = store.records(&[task], LoadFor::State).await.unwrap();
            assert!(
                matches!(&records[..], [(_, Err(StoreError::Unsupported(_)))]),
                "{what}: {records:?}"
            );
        }
        let lines = store.lines(&[ended]).await.unwrap();
        let said = &lines[0].failure.as_ref().unwrap().message;
        assert!(said.contains("missing"), "{what}: {said}");
        assert_eq!(checked(&store).await, 2, "{what}");
    }
    // The key is back.
    assert_eq!(
        load(store, ended).await.task.failure.unwrap().message,
        WORDS
    );
    load(store, open).await;
}

#[tokio::test]
async fn a_task_from_before_waits_for_a_key_before_a_step_of_it_runs() {
    let fixture = embedded::fixture().await;
    let open = planted(&fixture.ports.store, TaskStatus::Dispatched).await;
    let without = behind(&fixture.ports.store, None, false).load(open).await;
    assert!(
        matches!(without, Err(StoreError::Unsupported(_))),
        "{without:?}"
    );
    let with = behind(&fixture.ports.store, Some(1), false);
    assert_eq!(load(&with, open).await.task.request, json!({"name": WORDS}));
}

#[tokio::test]
async fn what_only_looks_encrypted_comes_back_as_it_was_handed_in() {
    let fixture = embedded::fixture().await;
    let looks = json!({"counterstep:encrypted": "encrypted:1:default:0:AAAA"});
    let text = "encrypted:0:AAAA is no text of ours";
    let none = fixture.ports.store.clone().with_codec(None);
    for store in [none, behind(&fixture.ports.store, Some(1), false)] {
        let mut change = submit(row(new_task()));
        let write = change.task.as_mut().expect("a row");
        write.row.request = looks.clone();
        write.row.failure = Some(Failure {
            step: None,
            class: "permanent".to_owned(),
            message: text.to_owned(),
            ..Failure::default()
        });
        let change = recorded(&store, change, None);
        commit(&store, NEW, &change).await.unwrap();
        for _ in 0..2 {
            let read = load(&store, change.task_id).await;
            assert_eq!(read.task.request, looks);
            assert_eq!(read.task.failure.as_ref().unwrap().message, text);
            let (guard, again) = sweep(&read, Vec::new(), new_change(), "test");
            store.commit(guard, again.clone()).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_text_of_failures_is_looked_for_where_it_is_opened() {
    let fixture = fixture().await;
    let store = &fixture.ports.store;
    let task = planted(store, TaskStatus::Failed).await;
    let query = |text: &str| TaskQuery {
        failure: FailureFilter {
            text: Some(text.to_owned()),
            class: None,
        },
        limit: 5,
        ..TaskQuery::default()
    };
    let page = store.list(&query("own wor")).await.unwrap();
    assert_eq!(
        page.lines.iter().map(|line| line.task).collect::<Vec<_>>(),
        [task]
    );
    assert_eq!(store.list(&query("other")).await.unwrap().lines, []);
}

/// A task that failed after the key was rotated: its request is under the old key, and what failed under the new one.
async fn failed_after_a_rotation(inner: &Store) -> TaskId {
    let mut change = submit(row(new_task()));
    write_of(&mut change).row.request = json!({"name": WORDS});
    let before = behind(inner, Some(1), false);
    let change = recorded(&before, change, None);
    commit(&before, NEW, &change).await.expect("a task");
    let rotated = with_keys(inner, &[2, 1], false);
    let record = load(&rotated, change.task_id).await;
    let mut change = after(&record);
    let write = write_of(&mut change);
    write.row.status = TaskStatus::Failed;
    write.row.failure = Some(Failure {
        class: "permanent".to_owned(),
        message: WORDS.to_owned(),
        ..Failure::default()
    });
    write.finished = Time::In(Duration::ZERO);
    change.attempts = vec![
        start(1, record.task.epoch, Duration::ZERO),
        end(1, Outcome::Failed, true),
    ];
    commit(&rotated, free(&record), &change)
        .await
        .expect("an end");
    record.task.id
}

#[tokio::test]
async fn a_late_copy_of_the_keys_leaves_a_task_alone_whose_failure_it_cannot_read() {
    let fixture = embedded::fixture().await;
    let inner = &fixture.ports.store;
    let task = failed_after_a_rotation(inner).await;
    let late = behind(inner, Some(1), false);
    let refused = late.load(task).await;
    assert!(
        matches!(refused, Err(StoreError::Unsupported(_))),
        "{refused:?}"
    );
    let refused = late.salvage(task).await;
    assert!(
        matches!(refused, Err(StoreError::Unsupported(_))),
        "{refused:?}"
    );
    let records = late.records(&[task], LoadFor::State).await.unwrap();
    assert!(
        matches!(&records[..], [(_, Err(StoreError::Unsupported(_)))]),
        "{records:?}"
    );
    // Of which the archive is written.
    let refused = late.history(task).await;
    assert!(
        matches!(refused, Err(StoreError::Unsupported(_))),
        "{refused:?}"
    );
    let rotated = with_keys(inner, &[2, 1], false);
    let record = load(&rotated, task).await;
    crate::suite::logs::add(&rotated, &record, &log_row(1, 1, 1, 40)).await;
    let refused = late.log(task).await;
    assert!(
        matches!(refused, Err(StoreError::Unsupported(_))),
        "{refused:?}"
    );
    let lines = late.lines(&[task]).await.unwrap();
    let said = &lines[0].failure.as_ref().unwrap().message;
    assert!(said.contains("missing"), "{said}");
    assert_eq!(record.task.failure.unwrap().message, WORDS);
}

#[tokio::test]
async fn an_erased_failure_is_not_encrypted_once_more_with_a_newer_key() {
    let fixture = fixture().await;
    let task = planted(&fixture.ports.store, TaskStatus::Failed).await;
    let inner = embedded::open_in(fixture.folder.path(), embedded::options())
        .await
        .store;
    let newer = behind(&inner, Some(2), true);
    let records = newer.records(&[task], LoadFor::State).await.unwrap();
    let (_, Ok(record)) = records.into_iter().next().unwrap() else {
        panic!("it is read");
    };
    sweep_of(&newer, &record).await;
    let failure = load(&newer, task).await.task.failure.unwrap();
    assert!(failure.message.contains("erased"), "{failure:?}");
}

#[tokio::test]
async fn a_failure_that_only_looks_encrypted_leaves_the_chain_whole() {
    let fixture = embedded::fixture().await;
    let store = fixture.ports.store.clone().with_codec(None);
    let mut change = submit(row(new_task()));
    write_of(&mut change).row.failure = Some(Failure {
        class: "permanent".to_owned(),
        message: "encrypted:0:AAAA is no text of ours".to_owned(),
        ..Failure::default()
    });
    let change = recorded(&store, change, None);
    commit(&store, NEW, &change).await.unwrap();
    let mut record = load(&store, change.task_id).await;
    // As a turn goes on, without reading the task again. What is handed in looks like nothing.
    for _ in 0..3 {
        let mut change = after(&record);
        let row = &mut write_of(&mut change).row;
        row.audit_seq = row.audit_seq.next();
        let mut entry = audit(row, "changed");
        (entry.from, entry.details) = (Some(record.task.status), json!({"note": WORDS}));
        change.audit = vec![entry];
        let change = recorded(&store, change, Some(&record));
        let committed = store.commit(free(&record), change.clone()).await;
        let committed = committed.expect("it is written");
        record = once_committed(&record, &change, committed.now);
    }
    let (_, found) = chains::check(&store, &Scope::default()).await;
    assert_eq!(found, vec![]);
}

#[tokio::test]
async fn a_task_from_before_there_were_keys_is_archived_without_its_payloads_once_they_are_deleted()
{
    let fixture = embedded::fixture().await;
    let inner = fixture.ports.store.clone();
    let task = planted(&inner, TaskStatus::Failed).await;
    let mut ports = fixture.ports.clone();
    ports.store = behind(&inner, None, true);
    let engine = Engine::new(
        ports,
        Arc::new(Registry::new()),
        EngineSettings::default(),
        "test",
    );
    let record = load(&inner, task).await;
    let plan = PurgePlan {
        groups: vec![PurgeGroup {
            task_type: record.task.task_type.clone(),
            status: TaskStatus::Failed,
            keep: Keep::ThenArchive(Duration::ZERO),
            tasks: vec![EndedTask {
                task,
                tenant: record.task.tenant.clone(),
                rev: record.task.rev,
            }],
        }],
        ..PurgePlan::default()
    };
    let (settings, shutdown) = (RetentionSettings::default(), CancelToken::new());
    let done = retention::run(&engine, &settings, plan, &shutdown)
        .await
        .expect("the store answers");
    assert_eq!((done.archived, done.failed), (1, vec![]));
    let mut path = fixture.folder.path().join("objects/archive/archive/tasks");
    while path.is_dir() {
        let mut entries = std::fs::read_dir(&path).expect("a folder");
        path = entries
            .next()
            .expect("an entry")
            .expect("it is read")
            .path();
    }
    let line = std::fs::read_to_string(path).expect("an archive");
    assert!(
        line.contains(&task.to_string()) && !line.contains(WORDS),
        "{line}"
    );
}
