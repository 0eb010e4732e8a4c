//! The contract of a store, behind what encrypts payloads; and what becomes of tasks whose key is gone.

use crate::embedded::{self, Fixture};
use crate::suite::chain as chains;
use crate::suite::changes::*;
use counterstep_adapters::payload_keys::{EncryptedPayloads, PayloadKey, PayloadKeys};
use counterstep_contracts::{AuditSeq, StepNo, TaskId, TaskStatus, Tenant};
use counterstep_kernel::draft::sweep;
use counterstep_kernel::payloads::PayloadStore;
use counterstep_kernel::ports::{
    AuditPage, ENCRYPTED, FailureFilter, PayloadCodec, PayloadError, Store, StoreError, TaskQuery,
};
use counterstep_kernel::record::{Failure, SignalRow, StepFailure, StepRow};
use counterstep_kernel::transition::Time;
use counterstep_reconciler::audit::Scope;
use counterstep_reconciler::fsck::fsck;
use counterstep_steps::Registry;
use counterstep_steps::times::DbTime;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// One key for all tenants, or none.
#[derive(Debug)]
struct Keys(Option<PayloadKey>);

impl PayloadKeys for Keys {
    fn of(&self, _: &Tenant) -> Result<Arc<[PayloadKey]>, PayloadError> {
        Ok(self.0.iter().cloned().collect())
    }
}

fn behind(store: &Arc<dyn Store>, key: Option<u8>) -> Arc<dyn Store> {
    let keys = Keys(key.map(|byte| PayloadKey::new([byte; 32])));
    let codec = Arc::new(EncryptedPayloads::new(keys)) as Arc<dyn PayloadCodec>;
    Arc::new(PayloadStore::new(store.clone(), Some(codec)))
}

pub(crate) async fn fixture() -> Fixture {
    let mut fixture = embedded::fixture().await;
    fixture.ports.store = behind(&fixture.ports.store, Some(1));
    fixture
}

crate::store_cases!(crate::encrypted::fixture);

const WORDS: &str = "my own words";

/// A task with payloads of each kind, in this state.
async fn planted(store: &dyn Store, status: TaskStatus) -> TaskId {
    let said = || StepFailure {
        class: "permanent".to_owned(),
        message: WORDS.to_owned(),
    };
    let mut change = submit(row(new_task()));
    let write = change.task.as_mut().expect("a row");
    (write.row.request, write.row.response) = (json!({"name": WORDS}), Some(json!([WORDS])));
    write.row.status = status;
    write.row.failure = Some(Failure {
        step: None,
        class: "permanent".to_owned(),
        message: WORDS.to_owned(),
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
    change.task_id
}

#[tokio::test]
async fn nothing_that_was_handed_in_stands_in_the_rows() {
    let fixture = fixture().await;
    let store = &*fixture.ports.store;
    let task = planted(store, TaskStatus::Failed).await;
    let page = AuditPage {
        task: Some(task.to_string()),
        after: None,
        limit: 9,
    };
    for row in store.audit_page(&page).await.unwrap() {
        let says = format!("{}{:?}", row.entries, row.data);
        assert!(!says.contains(WORDS) && says.contains(ENCRYPTED), "{says}");
    }
    let file = crate::sqlite::file(&fixture);
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
    assert_eq!(read.task.failure.unwrap().message, WORDS);
    assert_eq!(step.output, Some(json!(WORDS)));
    assert_eq!(step.signal.as_ref().unwrap().body, json!({"word": WORDS}));
    assert_eq!(step.error.as_ref().unwrap().message, WORDS);
    let history = store.history(task).await.unwrap();
    assert_eq!(history.audit[1].entry.details, json!({"error": WORDS}));
    assert_eq!(history.audit[2].entry.details, json!({"error": WORDS}));
}

#[tokio::test]
async fn without_the_key_what_has_ended_is_erased_and_the_rest_is_left_alone() {
    let fixture = fixture().await;
    let store = &fixture.ports.store;
    let ended = planted(&**store, TaskStatus::Failed).await;
    let open = planted(&**store, TaskStatus::Dispatched).await;
    let inner = embedded::open_in(fixture.folder.path(), embedded::options())
        .await
        .store;
    let none = Arc::new(PayloadStore::new(inner.clone(), None)) as Arc<dyn Store>;
    for (what, store) in [("deleted", behind(&inner, None)), ("never there", none)] {
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
            (read.task.request, read.task.response),
            (Value::Null, None),
            "{what}"
        );
        assert_eq!(
            (&read.steps[0].output, &read.steps[0].signal),
            (&None, &None),
            "{what}"
        );
        assert!(
            read.task.failure.unwrap().message.contains("erased"),
            "{what}"
        );
        let history = store.history(ended).await.unwrap();
        assert!(
            history.audit.iter().all(|row| row.entry.details.is_null()),
            "{what}"
        );
        let (verified, found) = chains::check(&*store, &Scope::default()).await;
        assert_eq!((verified.tasks, found), (2, vec![]), "{what}");
        let registry = Registry::new();
        let mut found = Vec::new();
        let mut keep = |finding| found.push(finding);
        let checked = fsck(&*store, &registry, None, &Scope::default(), &mut keep).await;
        assert_eq!(checked.unwrap().newer, 1, "{what}");
        assert_eq!(found, [], "{what}");
        // A sweep writes back what it cannot read.
        let records = store.records(&[ended]).await.unwrap();
        let (_, Ok(record)) = records.into_iter().next().unwrap() else {
            panic!("{what}: it is read");
        };
        let (guard, change) = sweep(&record, Vec::new(), new_change(), "test");
        store.commit(guard, &change).await.unwrap();
    }
    // The key was mislaid, and is back.
    let read = load(&**store, ended).await;
    assert_eq!(read.task.failure.unwrap().message, WORDS);
    load(&**store, open).await;
}

#[tokio::test]
async fn with_another_key_in_its_place_it_is_as_without_any() {
    let fixture = fixture().await;
    let task = planted(&*fixture.ports.store, TaskStatus::Failed).await;
    let inner = embedded::open_in(fixture.folder.path(), embedded::options())
        .await
        .store;
    let other = behind(&inner, Some(2));
    let read = other.load(task).await.unwrap().unwrap();
    assert_eq!(read.task.request, Value::Null);
    planted(&*other, TaskStatus::Dispatched).await;
}

#[tokio::test]
async fn a_text_of_failures_is_looked_for_where_it_is_opened() {
    let fixture = fixture().await;
    let store = &*fixture.ports.store;
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
