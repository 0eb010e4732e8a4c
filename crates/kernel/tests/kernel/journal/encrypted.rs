//! What must be encrypted in a journal, and what is held against its digest.

use super::TASK;
use counterstep_contracts::{ChangeId, Epoch, Rev, TaskStatus};
use counterstep_kernel::audit::{ContentHash, EntryHash};
use counterstep_kernel::journal::{FORM, Fold, JournalRow};
use counterstep_steps::times::DbTime;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use uuid::Uuid;

fn ciphertext() -> Value {
    json!({"counterstep:encrypted": "encrypted:1:acme:k1:AAAA"})
}

fn escaped() -> Value {
    json!({"counterstep:encrypted": "encrypted:0:AAAA"})
}

fn row(rev: i64, key: Option<&str>, data: Option<&Value>) -> JournalRow {
    let data = data.map(ToString::to_string);
    let digest = data.as_ref().map(|data| {
        let digest = Sha256::digest(data);
        let digits = digest.iter().map(|byte| format!("{byte:02x}"));
        digits.collect::<String>()
    });
    let mut entries = json!({});
    if let Some(key) = key {
        entries["key"] = key.into();
    }
    if let Some(digest) = digest {
        entries["data"] = digest.into();
    }
    JournalRow {
        rev: Rev(rev),
        epoch: Epoch(0),
        at: DbTime(0),
        change_id: ChangeId(Uuid::nil()),
        actor: "test".to_owned(),
        form: FORM,
        entries: entries.to_string(),
        data,
        link: ContentHash(Vec::new()),
        seal: EntryHash(Vec::new()),
    }
}

/// The fold, and as text what is wrong with it.
fn read(mut fold: Fold, rows: &[JournalRow]) -> Result<Fold, String> {
    for row in rows {
        fold.push(row).map_err(|error| error.to_string())?;
    }
    Ok(fold)
}

#[test]
fn a_plaintext_is_refused_from_the_first_row_with_a_key_on() {
    let request = |request: Value| json!({"request": request});
    let (closed, open) = (request(ciphertext()), request(json!("in the clear")));
    for (what, plain) in [
        ("request 1", request(json!({"name": 1}))),
        ("escaped", request(escaped())),
        ("response", json!({"response": [1]})),
        (
            "an output",
            json!({"outputs": {"1": ciphertext(), "2": "x"}}),
        ),
        (
            "a signal",
            json!({"signals": {"2": {"body": 7, "actor": "a", "at": 1}}}),
        ),
        ("details", json!({"details": {"0": {"held": "x"}}})),
    ] {
        let of_the_row = [row(1, None, Some(&open)), row(2, Some("k1"), Some(&plain))];
        let later = [
            row(1, Some("k1"), Some(&closed)),
            row(2, None, None),
            row(3, None, Some(&plain)),
        ];
        for (rows, at) in [(&of_the_row[..], "row 2 "), (&later[..], "row 3 ")] {
            let refused = read(Fold::new(TASK), rows).expect_err(what);
            assert!(
                refused.starts_with(at) && refused.contains("`k1`"),
                "{what}: {refused}"
            );
            assert!(!refused.contains("clear"), "{what}: {refused}");
        }
    }
    let refused = read(
        Fold::new(TASK),
        &[row(1, Some("k1"), Some(&json!({"outputs": {"2": "x"}})))],
    );
    assert!(refused.expect_err("a plaintext").contains("output 2"));
}

#[test]
fn what_was_written_before_there_were_keys_is_read_and_so_is_what_no_key_is_needed_for() {
    let rows = [
        row(
            1,
            None,
            Some(&json!({"request": "in the clear", "client_key": "abc"})),
        ),
        row(
            2,
            Some("k1"),
            Some(&json!({"outputs": {"1": ciphertext()}, "response": null})),
        ),
        row(
            3,
            Some("k2"),
            Some(&json!({"details": {"0": ciphertext()}})),
        ),
        row(4, None, None),
    ];
    for fold in [Fold::new(TASK), Fold::holding_digests(TASK)] {
        let fold = read(fold, &rows).expect("it is read");
        assert_eq!(fold.record().payload_key.as_deref(), Some("k2"));
        assert_eq!(fold.record().task.request, json!("in the clear"));
    }
    let plain = read(Fold::new(TASK), &rows[..1]).expect("it is read");
    assert_eq!(plain.record().payload_key, None);
}

#[test]
fn a_run_refuses_data_that_are_not_those_of_their_digest() {
    let whole = row(1, None, Some(&json!({"request": 1})));
    let others = JournalRow {
        data: Some(json!({"request": 2}).to_string()),
        ..whole.clone()
    };
    let gone = JournalRow {
        data: None,
        ..whole.clone()
    };
    let put_in = JournalRow {
        data: others.data.clone(),
        ..row(1, None, None)
    };
    read(Fold::holding_digests(TASK), &[whole, row(2, None, None)]).expect("it is whole");
    for (what, row) in [("others", others), ("gone", gone), ("put in", put_in)] {
        let rows = [row];
        read(Fold::new(TASK), &rows).expect("a look does not compute it");
        let refused = read(Fold::holding_digests(TASK), &rows).expect_err(what);
        assert!(
            refused.starts_with("row 1 ") && refused.contains("digest"),
            "{what}: {refused}"
        );
        // The rest of the row counts.
        let mut fold = Fold::holding_digests(TASK);
        fold.push_damaged(&rows[0]).expect_err(what);
        let read = fold.record();
        assert_eq!(
            (read.task.rev, &read.task.request),
            (Rev(1), &Value::Null),
            "{what}"
        );
        assert_eq!(read.task.status, TaskStatus::Submitted);
    }
}
