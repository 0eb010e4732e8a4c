//! A task as it is loaded: its row, and what its journal says beyond that, in one snapshot. Must not repair what cannot be read.

use super::fault::{Care, Content, Fault, content};
use super::{journal, tasks};
use counterstep_contracts::{Rev, TaskId};
use counterstep_kernel::ports::{LoadFor, Loaded};
use counterstep_kernel::record::{TaskRecord, TaskRow};
use counterstep_steps::times::DbTime;
use diesel::SqliteConnection;

pub(super) fn read_task(
    connection: &mut SqliteConnection,
    now: i64,
    task: TaskId,
    purpose: LoadFor,
) -> Result<Option<Loaded>, Fault> {
    let mut care = Care::of(purpose);
    let Some(row) = tasks::load(connection, task)? else {
        return Ok(None);
    };
    let with_data = purpose != LoadFor::State;
    let journal = journal::read(connection, task, with_data, &mut care)?;
    let Content {
        request,
        client_key,
        response,
        parent,
        webhook,
        earlier_requests,
        place_key,
        place_no,
        settled,
        steps,
        marks,
        payload_key,
        instead,
    } = content(task, Rev(row.rev), &journal, &mut care)?;
    let row = row.decode(instead, &mut care)?;
    let record = TaskRecord {
        task: Box::new(TaskRow {
            request,
            client_key,
            response,
            parent,
            webhook,
            earlier_requests,
            place_key,
            place_no,
            settled,
            ..row
        }),
        steps,
        marks,
        payload_key,
        now: DbTime(now),
    };
    Ok(Some(care.loaded(record)))
}
