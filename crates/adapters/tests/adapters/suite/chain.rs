//! The chain of a journal: what the kernel binds, a store seals, and both find again.

use super::changes::*;
use counterstep_contracts::{Attempt, AuditSeq, Epoch, StepNo, StepStatus, TaskId, TaskStatus};
use counterstep_kernel::audit;
use counterstep_kernel::change::transition::Transition;
use counterstep_kernel::ports::{JournalPage, Lane, Ports, Store};
use counterstep_kernel::record::{AuditEntry, StepRow, TaskRecord};
use counterstep_reconciler::audit::{Copied, Damage, Finding, Scope, Verified, verify};
use futures::future::join_all;
use serde_json::{Value, json};

/// Adds `count` entries to a change.
pub(crate) fn entries(change: &mut Transition, count: i64, details: &Value) {
    let write = write_of(change);
    let first = write.row.rev.0 == 1;
    let last = if first { 0 } else { write.row.audit_seq.0 };
    let make = |n: i64| AuditEntry {
        seq: AuditSeq(last + n),
        from: (last + n > 1).then_some(TaskStatus::Dispatched),
        step: (n % 2 == 0).then_some(StepNo(1)),
        step_from: (n % 2 == 0).then_some(StepStatus::Pending),
        step_to: (n % 2 == 0).then_some(StepStatus::Running),
        attempt: (n % 3 == 0).then_some(Attempt(2)),
        epoch: Epoch(last + n),
        details: details.clone(),
        ..audit(&write.row, "step_started")
    };
    let made: Vec<_> = (1..=count).map(make).collect();
    write.row.audit_seq = AuditSeq(last + count);
    // So that each row has data, too.
    let output = Some(json!(write.row.rev));
    change.audit = made;
    change.steps = vec![StepRow {
        output,
        status: StepStatus::Running,
        ..StepRow::pending(StepNo(1), "zip")
    }];
}

/// A task with a chain of these changes, each with its number of entries.
pub(crate) async fn chained(store: &Store, changes: &[i64], details: &Value) -> TaskRecord {
    let mut record: Option<TaskRecord> = None;
    for count in changes {
        let (guard, mut change) = match &record {
            None => (NEW, submit(row(new_task()))),
            Some(record) => (free(record), after(record)),
        };
        entries(&mut change, *count, details);
        let change = recorded(store, change, record.as_ref());
        let committed = commit(store, guard, &change).await.expect("a change");
        record = Some(match record {
            None => load(store, change.task_id).await,
            Some(record) => once_committed(&record, &change, committed.now),
        });
    }
    record.expect("a change")
}

pub(crate) async fn check(store: &Store, scope: &Scope) -> (Verified, Vec<Finding>) {
    let mut found = Vec::new();
    let verified = verify(store, scope, &mut |finding| found.push(finding))
        .await
        .expect("a store that answers");
    assert_eq!(verified.findings, found.len() as u64);
    (verified, found)
}

pub(crate) async fn a_chain_holds_over_changes_of_one_and_of_many_entries(ports: &Ports) {
    let store = &ports.store;
    let record = chained(store, &[1, 3, 1, 2], &json!({"why": "because"})).await;
    chained(store, &[2], &Value::Null).await;
    let (verified, found) = check(store, &Scope::default()).await;
    assert_eq!(found, []);
    assert_eq!((verified.tasks, verified.rows, verified.erased), (2, 5, 0));

    let task = record.task.id;
    let history = store.history(task).await.unwrap().audit;
    // What the engine works out for itself is what the store has written.
    assert_eq!(
        record.task.audit_seal.as_ref(),
        Some(&history.last().unwrap().seal)
    );
    assert_eq!(
        load(store, task).await.task.audit_seal,
        record.task.audit_seal
    );
    let page = JournalPage {
        task: Some(task.to_string()),
        after: None,
        limit: 9,
        lane: Lane::People,
    };
    for row in store.journal(&page).await.unwrap() {
        assert_eq!(
            row.seal,
            audit::seal(&row.link, row.at).0,
            "sealed with the time in the row"
        );
    }
    assert_eq!(
        history.iter().map(|row| row.seq.0).collect::<Vec<_>>(),
        [1, 2, 3, 4, 5, 6, 7]
    );
    let (verified, _) = check(
        store,
        &Scope {
            task: Some(task),
            ..Scope::default()
        },
    )
    .await;
    assert_eq!((verified.tasks, verified.rows), (1, 4));
    let none = Scope {
        task: Some(new_task()),
        ..Scope::default()
    };
    assert_eq!(check(store, &none).await, (Verified::default(), vec![]));
}

pub(crate) async fn a_link_survives_the_way_through_the_columns(ports: &Ports) {
    let store = &ports.store;
    for details in [
        json!({"b": 1, "a": {"z": [1, 2.5, -0.0, 1e300, 5e-324, 0.1, 1e17]}, "": null}),
        json!([
            u64::MAX,
            i64::MIN,
            9_007_199_254_740_993_i64,
            123_456_789.123_456_79,
            2.225_073_858_507_201e-308
        ]),
        json!(
            "quotes \" and \\ and \u{0} and \u{1f} and \u{7f} and \u{2028} and é e\u{301} 👩‍👩‍👧 and \u{fffd}"
        ),
        json!({"k\u{0}ey": "tab\there", "K": "🦀".repeat(3000), "nested": [[[[{"x": []}], {}]]]}),
        json!(true),
    ] {
        chained(store, &[2, 1], &details).await;
    }
    let (verified, found) = check(store, &Scope::default()).await;
    assert_eq!(found, []);
    assert_eq!(verified.rows, 10);
}

pub(crate) async fn of_many_chains_at_once_each_goes_on_from_its_own_end(ports: &Ports) {
    let store = &ports.store;
    join_all((0..60).map(|n| async move {
        let counts = [1, 1 + n % 4, 2, 1 + n % 2];
        chained(store, &counts, &json!(n)).await
    }))
    .await;
    let (verified, found) = check(store, &Scope::default()).await;
    assert_eq!(found, []);
    assert_eq!((verified.tasks, verified.rows), (60, 240));
}

pub(crate) async fn a_change_without_an_entry_is_a_row_too(ports: &Ports) {
    let store = &ports.store;
    let record = chained(store, &[2, 1], &Value::Null).await;
    let plain = recorded(store, after(&record), Some(&record));
    let committed = commit(store, free(&record), &plain).await.unwrap();
    let left = once_committed(&record, &plain, committed.now);
    assert_eq!(
        load(store, record.task.id).await.task.audit_seal,
        left.task.audit_seal
    );
    assert_ne!(left.task.audit_seal, record.task.audit_seal);
    // A process that lost the answer to the change finds it there.
    let changes = store.history(record.task.id).await.unwrap().changes;
    assert_eq!(
        (changes.len(), changes.last()),
        (3, Some(&(left.task.rev, plain.change_id)))
    );
    let mut more = after(&left);
    entries(&mut more, 2, &Value::Null);
    commit(store, free(&left), &more.with_journal(Some(&left), "test"))
        .await
        .unwrap();
    let (verified, found) = check(store, &Scope::default()).await;
    assert_eq!((verified.rows, found), (4, vec![]));
}

pub(crate) async fn a_change_of_a_task_without_its_row_is_refused(ports: &Ports) {
    let store = &ports.store;
    let record = chained(store, &[1], &Value::Null).await;
    assert!(store.commit(free(&record), after(&record)).await.is_err());
    assert_eq!(load(store, record.task.id).await.task.rev, record.task.rev);
}

pub(crate) async fn a_copy_of_the_ends_tells_whether_they_are_still_there(ports: &Ports) {
    let store = &ports.store;
    let task = chained(store, &[2, 1], &Value::Null).await.task.id;
    let tips = store
        .chain_tips(&JournalPage {
            task: None,
            after: None,
            limit: 10,
            lane: Lane::People,
        })
        .await
        .unwrap();
    assert_eq!(tips.len(), 1);
    assert_eq!(
        (tips[0].task.as_str(), tips[0].rev, tips[0].has_rows),
        (task.to_string().as_str(), 2, true)
    );
    let line = Copied::line(&tips[0]).expect("a sealed end");
    let of = |text: &str| Scope {
        copied: Copied::parse(text).expect("lines"),
        ..Scope::default()
    };
    // The chain may have gone on meanwhile.
    let record = load(store, task).await;
    let mut change = after(&record);
    entries(&mut change, 1, &Value::Null);
    commit(store, free(&record), &change).await.unwrap();
    assert_eq!(
        check(store, &of(&format!("# ends\n{line}\n\n"))).await.1,
        []
    );

    let other = line.replace(
        &line[line.len() - 4..],
        if line.ends_with("0000") {
            "1111"
        } else {
            "0000"
        },
    );
    let found = check(store, &of(&other)).await.1;
    assert!(
        matches!(&found[..], [one] if one.rev == Some(2) && one.damage == Damage::NotAsCopied),
        "{found:?}"
    );
    let gone = format!("{} 1 {}", TaskId(uuid::Uuid::nil()), "ab".repeat(32));
    let found = check(store, &of(&gone)).await.1;
    assert!(
        matches!(&found[..], [one] if one.damage == Damage::NotAsCopied),
        "{found:?}"
    );
    assert!(Copied::parse("not a line").is_err());
}

pub(crate) async fn rows_and_heads_page_in_order(ports: &Ports) {
    let store = &ports.store;
    let mut tasks = Vec::new();
    for _ in 0..3 {
        tasks.push(
            chained(store, &[2, 2, 1, 1], &Value::Null)
                .await
                .task
                .id
                .to_string(),
        );
    }
    tasks.sort();
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = store
            .journal(&JournalPage {
                task: None,
                after,
                limit: 3,
                lane: Lane::People,
            })
            .await
            .unwrap();
        let Some(last) = page.last() else { break };
        after = Some((last.task.clone(), last.rev));
        assert!(page.len() <= 3);
        seen.extend(page.into_iter().map(|row| (row.task, row.rev)));
    }
    let expected: Vec<_> = tasks
        .iter()
        .flat_map(|task| (1..=4).map(|rev| (task.clone(), rev)))
        .collect();
    assert_eq!(seen, expected);
    let page = |task, after, limit| JournalPage {
        task,
        after,
        limit,
        lane: Lane::People,
    };
    let tips = store.chain_tips(&page(None, None, 2)).await.unwrap();
    assert_eq!(
        tips.iter().map(|tip| tip.task.clone()).collect::<Vec<_>>(),
        tasks[..2]
    );
    let tips = store
        .chain_tips(&page(None, Some((tasks[1].clone(), 0)), 2))
        .await
        .unwrap();
    assert_eq!(
        tips.iter().map(|tip| tip.task.clone()).collect::<Vec<_>>(),
        tasks[2..]
    );
    let one = store
        .journal(&page(
            Some(tasks[1].clone()),
            Some((tasks[1].clone(), 2)),
            9,
        ))
        .await
        .unwrap();
    assert_eq!(
        one.iter()
            .map(|row| (row.task.clone(), row.rev))
            .collect::<Vec<_>>(),
        expected[6..8]
    );
}
