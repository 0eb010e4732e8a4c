//! What a store can still read of a task that was damaged beside it. Only the owner of its tables
//! can do such damage.

use super::chain;
use super::changes::*;
use counterstep_adapters::system::SystemRandom;
use counterstep_contracts::access::Role;
use counterstep_contracts::{StepStatus, Tenant, WaitReason};
use counterstep_kernel::access::api_keys::{self, KeySpec};
use counterstep_kernel::ports::{
    DocumentChange, DocumentKind, DocumentWrite, LoadFor, Ports, Store, StoreError,
};
use counterstep_kernel::record::{Failure, StepRow, UndoGoal};
use counterstep_reconciler::audit::{Damage, Part, Scope};
use counterstep_steps::Sql;
use futures::future::join_all;

pub(crate) async fn a_task_of_which_not_all_can_be_read_is_salvaged(ports: &Ports) {
    let store = &ports.store;
    let whole = claimed(store, MINUTE).await;
    let salvaged = store
        .salvage(whole.task.id)
        .await
        .unwrap()
        .expect("it is there");
    assert_eq!(
        (&salvaged.record.task, &salvaged.record.steps),
        (&whole.task, &whole.steps)
    );
    assert_eq!(salvaged.unreadable, []);
    assert_eq!(store.salvage(new_task()).await.unwrap(), None);

    let mut change = after(&whole);
    let step = StepRow {
        status: StepStatus::Running,
        ..whole.steps[0].clone()
    };
    change.steps = vec![step];
    let failure = Failure {
        class: "permanent".to_owned(),
        message: "no more".to_owned(),
        step: None,
        ..Failure::default()
    };
    write_of(&mut change).row.waiting = Some(WaitReason::Signal);
    write_of(&mut change).row.goal = Some(UndoGoal::Cancelled);
    write_of(&mut change).row.failure = Some(failure);
    commit(store, leased(&whole), &change).await.unwrap();
    let running = load(store, whole.task.id).await;
    let mut change = after(&running);
    let id = || whole.task.id.to_string();
    change.sql = vec![
        Sql::new("UPDATE tasks SET waiting = 'for godot', goal = 'none', failure = '[', host = 'x', labels = '[1]' WHERE CAST(id AS TEXT) = $1")
            .bind(id())
            .rows(1),
        Sql::new("UPDATE journal SET data = '{' WHERE CAST(task AS TEXT) = $1 AND rev = 1").bind(id()).rows(1),
        Sql::new("UPDATE journal SET entries = 'nul' WHERE CAST(task AS TEXT) = $1 AND rev = 4").bind(id()).rows(1),
    ];
    commit(store, leased(&running), &change).await.unwrap();
    let refused = store.load(whole.task.id).await;
    assert!(
        matches!(refused, Err(StoreError::Corrupt(_))),
        "{refused:?}"
    );
    let salvaged = store
        .salvage(whole.task.id)
        .await
        .unwrap()
        .expect("it is there");
    assert_eq!(salvaged.record.task.request, serde_json::Value::Null);
    assert_eq!(salvaged.record.steps[0].status, StepStatus::InDoubt);
    assert_eq!(
        (salvaged.record.task.status, salvaged.record.task.epoch),
        (whole.task.status, whole.task.epoch)
    );
    for (column, held) in [
        ("journal: row 1 ", "{"),
        ("waiting", "for godot"),
        ("goal", "none"),
        ("failure", "["),
        ("host", "x"),
        ("labels", "[1]"),
        ("journal: row 4 ", "nul"),
    ] {
        let found = salvaged
            .unreadable
            .iter()
            .find(|text| text.what.starts_with(column));
        assert_eq!(
            found.map(|found| found.held.as_str()),
            Some(held),
            "{column}: {salvaged:?}"
        );
    }
    // The journal has them too.
    let (found, expected) = (&salvaged.record.task, &running.task);
    assert_eq!(
        (found.waiting, found.goal, &found.failure),
        (expected.waiting, expected.goal, &expected.failure)
    );
    assert_eq!(
        (found.host, &found.labels),
        (expected.host, &expected.labels)
    );
    // What can be read is written on, and what is no state stays as it is.
    let mut next = after(&salvaged.record);
    write_of(&mut next).row.recovery_attempts = 7;
    write_of(&mut next).writes_labels = true;
    commit(store, leased(&salvaged.record), &next)
        .await
        .unwrap();
    let again = store
        .salvage(whole.task.id)
        .await
        .unwrap()
        .expect("it is there");
    assert_eq!(again.record.task.recovery_attempts, 7);
    assert_eq!(again.record.task.labels, expected.labels);
    assert_eq!(again.unreadable.len(), 2, "{again:?}");
    for column in ["journal: row 1 ", "journal: row 4 "] {
        let stays = again
            .unreadable
            .iter()
            .any(|text| text.what.starts_with(column));
        assert!(stays, "{column} was written over: {again:?}");
    }
}

pub(crate) async fn data_that_are_not_those_of_their_digest_are_refused_for_a_run(ports: &Ports) {
    let store = &ports.store;
    let (whole, damaged) = (claimed(store, MINUTE).await, claimed(store, MINUTE).await);
    let task = damaged.task.id;
    let (look, run) = (LoadFor::Look, LoadFor::Run);
    store.load_for(task, run).await.expect("it is whole");
    let mut record = damaged;
    for (data, text) in [
        (
            "others",
            r#"UPDATE journal SET data = '{"request":null}' WHERE CAST(task AS TEXT) = $1 AND rev = 1"#,
        ),
        (
            "none",
            "UPDATE journal SET data = NULL WHERE CAST(task AS TEXT) = $1 AND rev = 1",
        ),
    ] {
        let mut change = after(&record);
        change.sql = vec![Sql::new(text).bind(task.to_string()).rows(1)];
        commit(store, leased(&record), &change).await.unwrap();
        record = load(store, task).await;
        // Each gets its own answer, however many are read with it.
        let loads = (0..40).flat_map(|_| {
            [(task, look), (task, run), (whole.task.id, run)]
                .map(|(task, purpose)| store.load_for(task, purpose))
        });
        for answers in join_all(loads).await.chunks(3) {
            assert!(
                answers[0].is_ok() && answers[2].is_ok(),
                "{data}: {answers:?}"
            );
            let refused = &answers[1];
            assert!(
                matches!(refused, Err(StoreError::Corrupt(why)) if why.contains("row 1 ") && why.contains("digest")),
                "{data}: {refused:?}"
            );
        }
        let salvaged = store.salvage(task).await.unwrap().expect("it is there");
        assert_eq!(salvaged.unreadable.len(), 1, "{data}: {salvaged:?}");
        assert_eq!(salvaged.record.task.request, serde_json::Value::Null);
    }
}

pub(crate) async fn a_task_with_a_row_of_a_newer_form_is_not_read_in_part(ports: &Ports) {
    let store = &ports.store;
    let whole = claimed(store, MINUTE).await;
    let mut change = after(&whole);
    let id = whole.task.id.to_string();
    change.sql = vec![
        Sql::new("UPDATE journal SET form = form + 1 WHERE CAST(task AS TEXT) = $1 AND rev = 2")
            .bind(id)
            .rows(1),
    ];
    commit(store, leased(&whole), &change).await.unwrap();
    let (read, salvaged) = (
        store.load(whole.task.id).await,
        store.salvage(whole.task.id).await,
    );
    assert!(matches!(read, Err(StoreError::Unsupported(_))), "{read:?}");
    assert!(
        matches!(salvaged, Err(StoreError::Unsupported(_))),
        "{salvaged:?}"
    );
}

pub(crate) async fn a_chain_of_changes_that_is_not_whole_is_named_where_it_breaks(ports: &Ports) {
    let store = &ports.store;
    for _ in 0..21 {
        let spec = KeySpec {
            tenant: Tenant::default(),
            subject: "kim".to_owned(),
            role: Role::Read,
            expires_in: None,
        };
        api_keys::make(store, &SystemRandom, spec, "lee")
            .await
            .expect("a key");
    }
    // The last entry, cut off; then one that is written anew; then one that is gone.
    let entry = |no: u64, change| DocumentWrite {
        kind: DocumentKind::Audit,
        tenant: Tenant::default(),
        name: format!("{no:020}"),
        expected: None,
        change,
    };
    assert!(put(store, &entry(21, DocumentChange::Delete)).await);
    let body = r#"{"actor":"mallory","entries":"{}","link":"00"}"#.to_owned();
    assert!(put(store, &entry(7, DocumentChange::Put { body, due_at: None })).await);
    assert!(put(store, &entry(3, DocumentChange::Delete)).await);
    let (_, found) = chain::check(store, &Scope::default()).await;
    let found: Vec<_> = found.iter().map(|it| (it.rev, it.damage)).collect();
    assert_eq!(
        found,
        [
            (Some(3), Damage::Missing),
            (Some(7), Damage::Changed(Part::Text)),
            (Some(8), Damage::Changed(Part::Text)),
            (Some(21), Damage::Missing),
        ]
    );
}

async fn put(store: &Store, write: &DocumentWrite) -> bool {
    store.put_document(write).await.unwrap().is_some()
}

pub(crate) async fn a_state_is_read_without_what_was_handed_in(ports: &Ports) {
    let store = &ports.store;
    let whole = claimed(store, MINUTE).await;
    assert_ne!(whole.task.request, serde_json::Value::Null);
    let task = whole.task.id;
    for (purpose, request) in [
        (LoadFor::Look, whole.task.request),
        (LoadFor::State, serde_json::Value::Null),
    ] {
        let read = store.records(&[task], purpose).await.unwrap();
        let [(id, Ok(record))] = &read[..] else {
            panic!("{purpose:?}: {read:?}");
        };
        assert_eq!((*id, &record.task.request), (task, &request), "{purpose:?}");
    }
}
