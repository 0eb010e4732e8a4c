//! The contract of a spool: what it keeps is there after a restart, and it keeps no more than it may.
//! Each case opens it by itself, once for each process that it stands for.

use counterstep_contracts::{Attempt, Direction, Epoch, StepNo, TaskId};
use counterstep_kernel::ports::{Spool, SpoolEntry, SpoolError, SpoolKey, SpoolStats};
use std::path::Path;
use std::sync::Arc;
use uuid::Uuid;

/// Opens the spool of a process on the machine of this folder, with this bound.
pub(crate) type Open = fn(&Path, u64) -> Arc<dyn Spool>;

pub(crate) const MOST: u64 = 1 << 20;

pub(crate) fn entry(task: u128, kept_at: u64, body: &str) -> SpoolEntry {
    SpoolEntry {
        key: SpoolKey {
            task: TaskId(Uuid::from_u128(task)),
            step: StepNo(2),
            direction: Direction::Forward,
            attempt: Attempt(3),
        },
        epoch: Epoch(4),
        worker: "worker:0a".to_owned(),
        task_type: "Drive/1/9b".to_owned(),
        kept_at,
        body: body.to_owned(),
    }
}

pub(crate) async fn holds(spool: &dyn Spool, entries: &[&SpoolEntry]) {
    let keys: Vec<_> = entries.iter().map(|entry| entry.key).collect();
    assert_eq!(spool.keys().await.expect("keys"), keys);
    for &entry in entries {
        let found = spool.get(&entry.key).await.expect("an answer");
        assert_eq!(found.as_ref(), Some(entry));
    }
    let stats = SpoolStats {
        entries: entries.len() as u64,
        bytes: entries.iter().map(|entry| entry.body.len() as u64).sum(),
        oldest: entries.iter().map(|entry| entry.kept_at).min(),
    };
    assert_eq!(spool.stats(), stats);
}

pub(crate) async fn an_entry_comes_back_as_it_was_put_until_it_is_removed(
    open: Open,
    folder: &Path,
) {
    let spool = open(folder, MOST);
    holds(&*spool, &[]).await;
    let (young, old) = (entry(1, 20, "{\"a\":\"ü\"}"), entry(2, 10, ""));
    spool.put(&young).await.expect("it is kept");
    spool.put(&old).await.expect("it is kept");
    holds(&*spool, &[&old, &young]).await;

    spool.remove(&young.key).await.expect("an answer");
    spool.remove(&young.key).await.expect("nothing happens");
    assert_eq!(spool.get(&young.key).await.expect("an answer"), None);
    holds(&*spool, &[&old]).await;
}

pub(crate) async fn one_attempt_has_one_entry_and_others_have_their_own(open: Open, folder: &Path) {
    let spool = open(folder, MOST);
    let first = entry(1, 10, "first");
    spool.put(&first).await.expect("it is kept");
    let second = SpoolEntry {
        epoch: Epoch(5),
        ..entry(1, 20, "second")
    };
    spool.put(&second).await.expect("it is kept");
    holds(&*spool, &[&second]).await;

    let mut others = Vec::new();
    for key in [
        SpoolKey {
            step: StepNo(1),
            ..first.key
        },
        SpoolKey {
            direction: Direction::Undo,
            ..first.key
        },
        SpoolKey {
            attempt: Attempt(4),
            ..first.key
        },
    ] {
        let other = SpoolEntry {
            key,
            kept_at: 30 + others.len() as u64,
            ..first.clone()
        };
        spool.put(&other).await.expect("it is kept");
        others.push(other);
    }
    holds(&*spool, &[&second, &others[0], &others[1], &others[2]]).await;
}

pub(crate) async fn entries_survive_the_process(open: Open, folder: &Path) {
    let kept = entry(1, 10, "kept");
    {
        let spool = open(folder, MOST);
        spool.put(&kept).await.expect("it is kept");
        let gone = entry(2, 20, "gone");
        spool.put(&gone).await.expect("it is kept");
        spool.remove(&gone.key).await.expect("it is removed");
    }
    holds(&*open(folder, MOST), &[&kept]).await;
}

pub(crate) async fn an_entry_beyond_the_bound_is_refused_and_changes_nothing(
    open: Open,
    folder: &Path,
) {
    let spool = open(folder, 10);
    let six = entry(1, 10, "sixsix");
    spool.put(&six).await.expect("it is kept");
    let refused = spool.put(&entry(2, 20, "fives")).await;
    assert_eq!(refused, Err(SpoolError::Full { most: 10 }));
    // It takes the place of the six.
    let larger = entry(1, 20, "ten-bytes!");
    let refused = spool.put(&entry(1, 20, "eleven-byte")).await;
    assert_eq!(refused, Err(SpoolError::Full { most: 10 }));
    holds(&*spool, &[&six]).await;
    spool.put(&larger).await.expect("it fits");
    holds(&*spool, &[&larger]).await;
}

pub(crate) async fn of_two_processes_each_has_its_own_entries(open: Open, folder: &Path) {
    let (one, other) = (open(folder, MOST), open(folder, MOST));
    let (of_one, of_other) = (entry(1, 10, "one"), entry(1, 20, "other"));
    one.put(&of_one).await.expect("it is kept");
    other.put(&of_other).await.expect("it is kept");
    holds(&*one, &[&of_one]).await;
    holds(&*other, &[&of_other]).await;
}

pub(crate) async fn a_process_takes_over_what_others_that_are_gone_have_left(
    open: Open,
    folder: &Path,
) {
    let (of_one, of_two, of_three) = (
        entry(1, 10, "one"),
        entry(2, 20, "two"),
        entry(3, 30, "three"),
    );
    let one = open(folder, MOST);
    let three = {
        let two = open(folder, MOST);
        let three = open(folder, MOST);
        two.put(&of_two).await.expect("it is kept");
        three
    };
    one.put(&of_one).await.expect("it is kept");
    three.put(&of_three).await.expect("it is kept");
    drop(one);

    // The first file is its own, the second is left over, and the third has a living process.
    // What it takes over may be more than it may hold.
    let next = open(folder, 1);
    holds(&*next, &[&of_one, &of_two]).await;
    holds(&*three, &[&of_three]).await;
    drop(next);
    holds(&*open(folder, MOST), &[&of_one, &of_two]).await;
}
