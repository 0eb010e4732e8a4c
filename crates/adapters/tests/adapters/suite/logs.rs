//! What steps log: rows beside the task, bounded, written as often as need be.

use super::changes::*;
use counterstep_contracts::{Epoch, TaskId};
use counterstep_kernel::ports::{LogRow, LogWrite, MOST_LOG_BYTES, MOST_LOG_LINES, Ports, Store};
use counterstep_kernel::record::TaskRecord;

/// A row of an epoch, with these counts of lines and bytes.
pub(crate) fn log_row(epoch: i64, no: u32, lines: u32, bytes: u32) -> LogRow {
    LogRow {
        epoch: Epoch(epoch),
        no,
        lines,
        bytes,
        dropped: 0,
        body: format!("[\"row {no} of epoch {epoch}\"]"),
    }
}

pub(crate) async fn add(store: &Store, record: &TaskRecord, row: &LogRow) {
    let (task, tenant, row) = (record.task.id, record.task.tenant.clone(), row.clone());
    let write = LogWrite { task, tenant, row };
    store.write_log(&write).await.unwrap();
}

/// Epoch, number and count of dropped lines of each row.
async fn rows(store: &Store, task: TaskId) -> Vec<(i64, u32, u64)> {
    let rows = store.log(task).await.unwrap();
    rows.iter()
        .map(|row| (row.epoch.0, row.no, row.dropped))
        .collect()
}

pub(crate) async fn rows_of_a_log_come_back_in_their_order_and_leave_the_task_alone(ports: &Ports) {
    let store = &ports.store;
    let record = claimed(store, MINUTE).await;
    let other = claimed(store, MINUTE).await;
    // That of an older epoch may arrive last.
    let written = [
        log_row(2, 1, 3, 90),
        log_row(2, 2, 1, 30),
        log_row(1, 7, 2, 60),
    ];
    for row in &written {
        add(store, &record, row).await;
    }
    let [first, second, late] = written;
    assert_eq!(
        store.log(record.task.id).await.unwrap(),
        [late, first, second]
    );
    assert_eq!(store.log(other.task.id).await.unwrap(), []);
    assert_eq!(load(store, record.task.id).await.task, record.task);
}

pub(crate) async fn a_row_of_a_log_that_is_written_again_changes_nothing(ports: &Ports) {
    let store = &ports.store;
    let record = claimed(store, MINUTE).await;
    let full = log_row(1, 1, MOST_LOG_LINES, 500);
    add(store, &record, &full).await;
    add(store, &record, &log_row(1, 1, 5, 50)).await;
    assert_eq!(store.log(record.task.id).await.unwrap(), [full]);
}

pub(crate) async fn rows_go_once_no_line_of_them_is_needed_and_their_lines_are_counted(
    ports: &Ports,
) {
    let store = &ports.store;
    let record = claimed(store, MINUTE).await;
    let task = record.task.id;
    let half = MOST_LOG_LINES / 2;
    for no in 1..=2 {
        add(store, &record, &log_row(1, no, half, 100)).await;
    }
    let mut skipping = log_row(1, 3, half - 1, 100);
    skipping.dropped = 4;
    add(store, &record, &skipping).await;
    // One line of the first row is among the latest yet.
    assert_eq!(rows(store, task).await, [(1, 1, 0), (1, 2, 0), (1, 3, 4)]);
    add(store, &record, &log_row(2, 1, 1, 10)).await;
    let gone = u64::from(half);
    assert_eq!(
        rows(store, task).await,
        [(1, 2, 0), (1, 3, 4), (2, 1, gone)]
    );
    // What a row has counted is not forgotten with it.
    add(store, &record, &log_row(2, 2, 1, MOST_LOG_BYTES)).await;
    let all = gone + u64::from(half) + u64::from(half - 1) + 4 + 1;
    assert_eq!(rows(store, task).await, [(2, 2, all)]);
}

pub(crate) async fn a_task_that_is_not_there_has_no_log(ports: &Ports) {
    let store = &ports.store;
    let record = claimed(store, MINUTE).await;
    let task = new_task();
    let write = LogWrite {
        task,
        tenant: record.task.tenant.clone(),
        row: log_row(1, 1, 1, 10),
    };
    store.write_log(&write).await.unwrap();
    assert_eq!(store.log(task).await.unwrap(), []);
}
