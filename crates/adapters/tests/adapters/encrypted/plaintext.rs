//! A plaintext in place of a ciphertext: a role that may write to the table must not hand a task what its key has not encrypted.

use super::{behind, planted};
use crate::embedded;
use crate::sqlite::{file, raw};
use crate::suite::chain::check;
use crate::suite::changes::*;
use counterstep_adapters::payload_keys::PayloadKey;
use counterstep_contracts::{TaskId, TaskStatus};
use counterstep_kernel::ports::{JournalPage, Lane, LoadFor, StoreError};
use counterstep_reconciler::audit::{Damage, Part, Scope};
use counterstep_reconciler::fsck::fsck;
use counterstep_steps::Registry;
use diesel::connection::SimpleConnection;
use serde_json::json;
use sha2::{Digest, Sha256};

/// Puts other data in the place of those of a row, with the digest of these in its entries.
async fn swap(fixture: &embedded::Fixture, task: TaskId, rev: i64, data: &str) {
    let digest = Sha256::digest(data);
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let sql = format!(
        "UPDATE journal SET data = '{data}', entries = json_set(entries, '$.data', '{digest}')
         WHERE task = '{task}' AND rev = {rev}"
    );
    raw(&file(fixture))
        .batch_execute(&sql)
        .expect("it is swapped");
}

#[tokio::test]
async fn each_row_that_is_written_with_a_key_names_it() {
    let fixture = embedded::fixture().await;
    let store = behind(&fixture.ports.store, Some(1), false);
    let with = planted(&store, TaskStatus::Dispatched).await;
    let claimed = claimed(&store, MINUTE).await.task.id;
    let without = planted(&fixture.ports.store, TaskStatus::Dispatched).await;
    let named = format!("\"key\":\"{}\"", PayloadKey::new([1; 32]).id());
    for (task, is_named) in [(with, true), (claimed, true), (without, false)] {
        let page = JournalPage {
            task: Some(task.to_string()),
            after: None,
            limit: 9,
            lane: Lane::People,
        };
        for row in store.journal(&page).await.unwrap() {
            assert_eq!(row.entries.contains(&named), is_named, "{}", row.entries);
        }
    }
}

#[tokio::test]
async fn a_plaintext_in_place_of_a_ciphertext_is_refused_with_its_row_and_its_key() {
    let fixture = embedded::fixture().await;
    let store = behind(&fixture.ports.store, Some(1), false);
    let key = PayloadKey::new([1; 32]).id().to_owned();
    let first = planted(&store, TaskStatus::Dispatched).await;
    swap(&fixture, first, 1, r#"{"request":{"name":"theirs"}}"#).await;
    // A later row, which names no key: as a process without keys would write it.
    let record = submitted(&store, row(new_task())).await;
    let mut change = after(&record);
    change.steps = record.steps.clone();
    change.steps[0].output = Some(json!("theirs"));
    commit(&fixture.ports.store, free(&record), &change)
        .await
        .expect("a row");
    let later = record.task.id;
    // The mark of what looked encrypted without keys.
    let escaped = planted(&store, TaskStatus::Dispatched).await;
    let text = r#"{"request":{"counterstep:encrypted":"encrypted:0:Imhlcmxpbmci"}}"#;
    swap(&fixture, escaped, 1, text).await;
    let mut expected = Vec::new();
    for (task, rev) in [(first, 1), (later, 2), (escaped, 1)] {
        for purpose in [LoadFor::Look, LoadFor::Run] {
            let refused = store.load_for(task, purpose).await;
            let Err(StoreError::Corrupt(why)) = refused else {
                panic!("{task}: {refused:?}");
            };
            let names = why.contains(&format!("row {rev} ")) && why.contains(&key);
            assert!(names && !why.contains("theirs"), "{why}");
        }
        let salvaged = store.salvage(task).await.unwrap().expect("it is there");
        assert_eq!(salvaged.unreadable.len(), 1, "{salvaged:?}");
        assert!(salvaged.unreadable[0].what.contains(&key), "{salvaged:?}");
        expected.push((task.to_string(), Some(rev)));
    }
    expected.sort();
    let plaintext = |found: Vec<counterstep_reconciler::audit::Finding>| {
        let of = found
            .into_iter()
            .filter(|one| one.damage == Damage::Changed(Part::Data));
        of.map(|one| {
            assert!(one.says.contains(&key), "{}", one.says);
            (one.task, one.rev)
        })
        .collect::<Vec<_>>()
    };
    let (_, found) = check(&store, &Scope::default()).await;
    assert_eq!(plaintext(found), expected);
    let (mut found, registry) = (Vec::new(), Registry::new());
    let mut keep = |finding| found.push(finding);
    let checked = fsck(&store, &registry, None, &Scope::default(), &mut keep).await;
    checked.expect("it can be checked");
    assert_eq!(plaintext(found), expected);
}

#[tokio::test]
async fn a_task_from_before_there_were_keys_goes_on_encrypted() {
    let fixture = embedded::fixture().await;
    let record = submitted(&fixture.ports.store, row(new_task())).await;
    let store = behind(&fixture.ports.store, Some(1), false);
    let mut change = after(&record);
    change.steps = record.steps.clone();
    change.steps[0].output = Some(json!("ours"));
    commit(&store, free(&record), &change).await.expect("a row");
    let read = store.load_for(record.task.id, LoadFor::Run).await;
    let read = read.expect("it is read").expect("it is there");
    assert_eq!(read.task.request, record.task.request);
    assert_eq!(read.steps[0].output, Some(json!("ours")));
    let (_, found) = check(&store, &Scope::default()).await;
    assert_eq!(found, []);
}

#[tokio::test]
async fn a_task_without_payloads_is_left_alone_by_a_process_without_keys() {
    let fixture = embedded::fixture().await;
    let store = behind(&fixture.ports.store, Some(1), false);
    let mut new = row(new_task());
    new.request = serde_json::Value::Null;
    let task = submitted(&store, new).await.task.id;
    let none = fixture.ports.store.clone().with_codec(None);
    let (read, salvaged) = (none.load(task).await, none.salvage(task).await);
    assert!(matches!(read, Err(StoreError::Unsupported(_))), "{read:?}");
    assert!(
        matches!(salvaged, Err(StoreError::Unsupported(_))),
        "{salvaged:?}"
    );
}
