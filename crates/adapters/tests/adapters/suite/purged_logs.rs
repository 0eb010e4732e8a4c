//! What a purge does to logs. Apart from the other cases of purges, which run as a reconciler, too: it
//! may delete what steps have logged, and logs nothing.

use super::logs::{add, log_row};
use super::purges::{ended, ended_task};
use counterstep_contracts::TaskStatus;
use counterstep_kernel::ports::{Ports, PurgeOp};

pub(crate) async fn a_purged_task_leaves_no_row_of_its_log(ports: &Ports) {
    let store = &ports.store;
    let one = ended(store, TaskStatus::Completed, "one").await;
    let other = ended(store, TaskStatus::Completed, "two").await;
    for task in [&one, &other] {
        add(store, task, &log_row(1, 1, 1, 10)).await;
    }
    let purge = PurgeOp::Purge(vec![ended_task(&one)]);
    assert_eq!(store.purge(&purge).await.unwrap(), [ended_task(&one)]);
    assert_eq!(store.log(one.task.id).await.unwrap(), []);
    assert_eq!(store.log(other.task.id).await.unwrap().len(), 1);
    // A row that comes late has no task any more.
    add(store, &one, &log_row(1, 2, 1, 10)).await;
    assert_eq!(store.log(one.task.id).await.unwrap(), []);
}
