//! Locks of tasks. Times are generous where something must still hold, and short where it is to
//! end.

use super::changes::new_task;
use super::eventually;
use counterstep_contracts::TaskId;
use counterstep_kernel::ports::{Acquired, LockTag, Locks, Ports};
use futures::future::join_all;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(150);
/// Short to wait for, and long enough to do something before it ends.
const TERM: Duration = Duration::from_secs(2);

/// What the service says once it has an opinion: on a busy machine a short lock may be over before
/// it is granted, and a service may fail to answer at any time.
async fn acquire(locks: &dyn Locks, task: TaskId, ttl: Duration) -> Acquired {
    eventually("an answer about a lock", || async {
        locks.acquire(task, ttl).await.ok()
    })
    .await
}

async fn take(locks: &dyn Locks, task: TaskId, ttl: Duration) -> LockTag {
    match acquire(locks, task, ttl).await {
        Acquired::Held(tag) => tag,
        Acquired::Elsewhere => panic!("another holder has the lock"),
    }
}

async fn is_taken(locks: &dyn Locks, task: TaskId) -> bool {
    acquire(locks, task, LONG).await == Acquired::Elsewhere
}

/// Waits until a short lock has ended, and takes it.
async fn take_after_the_end(locks: &dyn Locks, task: TaskId) -> LockTag {
    eventually("the end of a lock", || async {
        match acquire(locks, task, LONG).await {
            Acquired::Held(tag) => Some(tag),
            Acquired::Elsewhere => None,
        }
    })
    .await
}

/// Waits until a lock that was taken for `term` before this call would have ended: one that is taken now has
/// ended.
async fn until_over(locks: &dyn Locks, term: Duration) {
    let other = new_task();
    take(locks, other, term).await;
    take_after_the_end(locks, other).await;
}

pub(crate) async fn a_held_lock_is_elsewhere_for_everyone_until_it_is_released(ports: &Ports) {
    let (locks, task) = (&*ports.locks, new_task());
    let tag = take(locks, task, LONG).await;
    assert!(is_taken(locks, task).await);
    // Not even its holder takes it twice.
    assert!(is_taken(locks, task).await);
    locks.release(task, &tag).await.unwrap();
    let again = take(locks, task, LONG).await;
    assert_ne!(tag, again, "each holding has its own tag");
}

pub(crate) async fn a_lock_ends_by_itself(ports: &Ports) {
    let (locks, task) = (&*ports.locks, new_task());
    let first = take(locks, task, SHORT).await;
    take_after_the_end(locks, task).await;
    assert!(!locks.extend(task, &first, LONG).await.unwrap());
}

pub(crate) async fn an_extension_puts_the_end_off(ports: &Ports) {
    let (locks, task) = (&*ports.locks, new_task());
    let tag = take(locks, task, TERM).await;
    assert!(locks.extend(task, &tag, LONG).await.unwrap());
    until_over(locks, TERM).await;
    assert!(is_taken(locks, task).await);
    // It may also come sooner.
    assert!(locks.extend(task, &tag, SHORT).await.unwrap());
    take_after_the_end(locks, task).await;
}

pub(crate) async fn only_its_holder_extends_a_lock(ports: &Ports) {
    let (locks, task) = (&*ports.locks, new_task());
    let old = take(locks, task, LONG).await;
    locks.release(task, &old).await.unwrap();
    let tag = take(locks, task, LONG).await;
    assert!(!locks.extend(task, &old, SHORT).await.unwrap());
    assert!(!locks.extend(new_task(), &tag, LONG).await.unwrap());
    until_over(locks, SHORT).await;
    assert!(
        is_taken(locks, task).await,
        "a stranger's extension has not shortened it"
    );
    assert!(
        locks.extend(task, &tag, LONG).await.unwrap(),
        "nor ended it"
    );
}

pub(crate) async fn only_its_holder_releases_a_lock(ports: &Ports) {
    let (locks, task, other) = (&*ports.locks, new_task(), new_task());
    let tag = take(locks, task, LONG).await;
    let stranger = take(locks, other, LONG).await;
    locks.release(task, &stranger).await.unwrap();
    assert!(is_taken(locks, task).await);
    locks.release(task, &tag).await.unwrap();
    locks.release(task, &tag).await.unwrap();
    take(locks, task, LONG).await;
}

pub(crate) async fn a_late_release_leaves_the_next_holders_lock_alone(ports: &Ports) {
    let (locks, task) = (&*ports.locks, new_task());
    let late = take(locks, task, SHORT).await;
    let tag = take_after_the_end(locks, task).await;
    locks.release(task, &late).await.unwrap();
    assert!(is_taken(locks, task).await);
    assert!(locks.extend(task, &tag, LONG).await.unwrap());
}

pub(crate) async fn of_fifty_racing_hosts_one_gets_the_lock(ports: &Ports) {
    let (locks, task) = (&*ports.locks, new_task());
    let answers = join_all((0..50).map(|_| locks.acquire(task, LONG))).await;
    let held = answers
        .into_iter()
        .filter(|answer| matches!(answer, Ok(Acquired::Held(_))))
        .count();
    assert_eq!(held, 1);
}

pub(crate) async fn locks_of_other_tasks_do_not_meet(ports: &Ports) {
    let locks = &*ports.locks;
    let tasks: Vec<_> = (0..50).map(|_| new_task()).collect();
    join_all(tasks.iter().map(|&task| take(locks, task, LONG))).await;
    take(locks, new_task(), LONG).await;
}
