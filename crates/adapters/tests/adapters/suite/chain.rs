//! The chain of audit entries: what the kernel binds, a store seals, and both find again.

use super::changes::*;
use counterstep_contracts::{Attempt, AuditSeq, Epoch, StepNo, StepStatus, TaskId, TaskStatus};
use counterstep_kernel::audit::{self, Copied, Finding, Scope, Verified, verify};
use counterstep_kernel::draft::after_commit;
use counterstep_kernel::ports::{Ports, SealedPage, Store};
use counterstep_kernel::record::TaskRecord;
use counterstep_kernel::transition::{AuditEntry, Transition};
use futures::future::join_all;
use serde_json::{Value, json};

/// Adds so many entries to a change, and binds them as a draft does.
pub(crate) fn entries(change: &mut Transition, count: i64, details: &Value) {
    let (task, id) = (change.task_id, change.change_id);
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
    let mut made: Vec<_> = (1..=count).map(make).collect();
    let head = if first { None } else { write.row.audit_seal.as_ref() };
    audit::chain(task, id, head, &mut made);
    write.row.audit_seq = AuditSeq(last + count);
    change.audit = made;
}

/// A task with a chain of these changes, each of so many entries.
pub(crate) async fn chained(store: &dyn Store, changes: &[i64], details: &Value) -> TaskRecord {
    let mut record: Option<TaskRecord> = None;
    for count in changes {
        let (guard, mut change) = match &record {
            None => (NEW, submit(row(new_task()))),
            Some(record) => (free(record), after(record)),
        };
        entries(&mut change, *count, details);
        let committed = commit(store, guard, &change).await.expect("a change");
        record = Some(match record {
            None => load(store, change.task_id).await,
            Some(record) => after_commit(&record, &change, committed.now),
        });
    }
    record.expect("a change")
}

pub(crate) async fn check(store: &dyn Store, scope: &Scope) -> (Verified, Vec<Finding>) {
    let mut found = Vec::new();
    let verified = verify(store, scope, &mut |finding| found.push(finding)).await.expect("a store that answers");
    assert_eq!(verified.findings, found.len() as u64);
    (verified, found)
}

pub(crate) async fn a_chain_holds_over_changes_of_one_and_of_many_entries(ports: &Ports) {
    let store = &*ports.store;
    let record = chained(store, &[1, 3, 1, 2], &json!({"why": "because"})).await;
    chained(store, &[2], &Value::Null).await;
    let (verified, found) = check(store, &Scope::default()).await;
    assert_eq!(found, []);
    assert_eq!((verified.tasks, verified.entries, verified.unsealed), (2, 9, 0));

    let task = record.task.id;
    let history = store.history(task).await.unwrap().audit;
    // What the engine works out for itself is what the store has written.
    assert_eq!(record.task.audit_seal, history.last().unwrap().seal);
    assert_eq!(load(store, task).await.task.audit_seal, record.task.audit_seal);
    for row in &history {
        let link = row.entry.link.as_ref().expect("a link");
        assert_eq!(row.seal.as_ref(), Some(&audit::seal(&link.0, row.at)), "sealed with the time in the row");
    }
    let (verified, _) = check(store, &Scope { task: Some(task), ..Scope::default() }).await;
    assert_eq!((verified.tasks, verified.entries), (1, 7));
    let none = Scope { task: Some(new_task()), ..Scope::default() };
    assert_eq!(check(store, &none).await, (Verified::default(), vec![]));
}

pub(crate) async fn a_link_survives_the_way_through_the_columns(ports: &Ports) {
    let store = &*ports.store;
    for details in [
        json!({"b": 1, "a": {"z": [1, 2.5, -0.0, 1e300, 5e-324, 0.1, 1e17]}, "": null}),
        json!([u64::MAX, i64::MIN, 9_007_199_254_740_993_i64, 123_456_789.123_456_79, 2.225_073_858_507_201e-308]),
        json!("quotes \" and \\ and \u{0} and \u{1f} and \u{7f} and \u{2028} and é e\u{301} 👩‍👩‍👧 and \u{fffd}"),
        json!({"k\u{0}ey": "tab\there", "K": "🦀".repeat(3000), "nested": [[[[{"x": []}], {}]]]}),
        json!(true),
    ] {
        chained(store, &[2, 1], &details).await;
    }
    let (verified, found) = check(store, &Scope::default()).await;
    assert_eq!(found, []);
    assert_eq!(verified.entries, 15);
}

pub(crate) async fn of_many_chains_at_once_each_goes_on_from_its_own_end(ports: &Ports) {
    let store = &*ports.store;
    join_all((0..60).map(|n| async move {
        let counts = [1, 1 + n % 4, 2, 1 + n % 2];
        chained(store, &counts, &json!(n)).await
    }))
    .await;
    let (verified, found) = check(store, &Scope::default()).await;
    assert_eq!(found, []);
    assert_eq!((verified.tasks, verified.unsealed), (60, 0));
}

pub(crate) async fn a_change_without_an_entry_leaves_the_end_of_the_chain(ports: &Ports) {
    let store = &*ports.store;
    let record = chained(store, &[2, 1], &Value::Null).await;
    let mut plain = after(&record);
    // What the row in memory says of it does not count.
    write_of(&mut plain).row.audit_seal = None;
    commit(store, free(&record), &plain).await.unwrap();
    let mut left = load(store, record.task.id).await;
    assert_eq!(left.task.audit_seal, record.task.audit_seal);
    let mut more = after(&left);
    entries(&mut more, 2, &Value::Null);
    let committed = commit(store, free(&left), &more).await.unwrap();
    left = after_commit(&left, &more, committed.now);
    assert_eq!(load(store, record.task.id).await.task.audit_seal, left.task.audit_seal);
    assert_eq!(check(store, &Scope::default()).await.1, []);
}

pub(crate) async fn entries_from_before_there_were_links_are_counted_and_no_finding(ports: &Ports) {
    let store = &*ports.store;
    let old = submitted(store, row(new_task())).await;
    assert_eq!(old.task.audit_seal, None);
    let (verified, found) = check(store, &Scope::default()).await;
    assert_eq!((verified.entries, verified.unsealed, found), (1, 1, vec![]));
    // And its chain begins with the next one.
    let mut change = after(&old);
    entries(&mut change, 2, &Value::Null);
    let committed = commit(store, free(&old), &change).await.unwrap();
    let record = after_commit(&old, &change, committed.now);
    let mut change = after(&record);
    entries(&mut change, 1, &Value::Null);
    commit(store, free(&record), &change).await.unwrap();
    let (verified, found) = check(store, &Scope::default()).await;
    assert_eq!((verified.entries, verified.unsealed, found), (4, 1, vec![]));
}

pub(crate) async fn a_copy_of_the_ends_tells_whether_they_are_still_there(ports: &Ports) {
    let store = &*ports.store;
    let task = chained(store, &[2, 1], &Value::Null).await.task.id;
    let heads = store.heads(&SealedPage { task: None, after: None, limit: 10 }).await.unwrap();
    assert_eq!(heads.len(), 1);
    assert_eq!((heads[0].task.as_str(), heads[0].seq, heads[0].has_entries), (task.to_string().as_str(), 3, true));
    let line = Copied::line(&heads[0]).expect("a sealed end");
    let of = |text: &str| Scope { copied: Copied::parse(text).expect("lines"), ..Scope::default() };
    // The chain may have gone on meanwhile.
    let record = load(store, task).await;
    let mut change = after(&record);
    entries(&mut change, 1, &Value::Null);
    commit(store, free(&record), &change).await.unwrap();
    assert_eq!(check(store, &of(&format!("# ends\n{line}\n\n"))).await.1, []);

    let other = line.replace(&line[line.len() - 4..], if line.ends_with("0000") { "1111" } else { "0000" });
    let found = check(store, &of(&other)).await.1;
    assert!(matches!(&found[..], [one] if one.seq == Some(3) && one.damage == audit::Damage::NotAsCopied), "{found:?}");
    let gone = format!("{} 1 {}", TaskId(uuid::Uuid::nil()), "ab".repeat(32));
    let found = check(store, &of(&gone)).await.1;
    assert!(matches!(&found[..], [one] if one.damage == audit::Damage::NotAsCopied), "{found:?}");
    assert!(Copied::parse("not a line").is_err());
}

pub(crate) async fn entries_and_heads_page_in_order(ports: &Ports) {
    let store = &*ports.store;
    let mut tasks = Vec::new();
    for _ in 0..3 {
        tasks.push(chained(store, &[2, 2], &Value::Null).await.task.id.to_string());
    }
    tasks.sort();
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = store.sealed(&SealedPage { task: None, after, limit: 3 }).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some((last.task.clone(), last.seq));
        assert!(page.len() <= 3);
        seen.extend(page.into_iter().map(|entry| (entry.task, entry.seq)));
    }
    let expected: Vec<_> = tasks.iter().flat_map(|task| (1..=4).map(|seq| (task.clone(), seq))).collect();
    assert_eq!(seen, expected);
    let page = |task, after, limit| SealedPage { task, after, limit };
    let heads = store.heads(&page(None, None, 2)).await.unwrap();
    assert_eq!(heads.iter().map(|head| head.task.clone()).collect::<Vec<_>>(), tasks[..2]);
    let heads = store.heads(&page(None, Some((tasks[1].clone(), 0)), 2)).await.unwrap();
    assert_eq!(heads.iter().map(|head| head.task.clone()).collect::<Vec<_>>(), tasks[2..]);
    let one = store.sealed(&page(Some(tasks[1].clone()), Some((tasks[1].clone(), 2)), 9)).await.unwrap();
    assert_eq!(one.iter().map(|entry| (entry.task.clone(), entry.seq)).collect::<Vec<_>>(), expected[6..8]);
}
