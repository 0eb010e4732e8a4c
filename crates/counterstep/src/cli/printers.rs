//! The answers of operations that are printed with more than rows or lines: tables between lines, and commands with the name of this
//! program. Must not ask the API.

use super::output::unreadable;
use super::proposal::Caller;
use super::table::Look;
use super::{dead_letter, log, operator, trail, worker, workers};
use counterstep_contracts::operation::Operation;
use counterstep_contracts::operation::shown::View;
use counterstep_contracts::operation::task_lists::GetLog;
use counterstep_contracts::operation::task_views::{
    ExplainTask, GetAudit, GetDeadLetter, GetUndoPlan,
};
use counterstep_contracts::operation::workers::{ListWorkers, ShowWorker};
use counterstep_node::Exit;
use serde::de::DeserializeOwned;

/// Prints an answer.
pub(super) type Printer = fn(&[u8], &Look, &Caller) -> Result<String, Exit>;

/// By the id of the operation.
const PRINTERS: [(&str, Printer); 7] = [
    (GetAudit::ABOUT.id, |answer, look, _| {
        look.text(&View::Table(trail::rows(&read(answer)?)))
    }),
    (GetUndoPlan::ABOUT.id, |answer, look, _| {
        Ok(operator::plan(&read(answer)?, look))
    }),
    (ExplainTask::ABOUT.id, |answer, _, caller| {
        Ok(operator::why(&read(answer)?, caller))
    }),
    (GetLog::ABOUT.id, |answer, _, _| {
        Ok(log::one_page(&read(answer)?))
    }),
    (ListWorkers::ABOUT.id, |answer, look, _| {
        workers::shown(&read(answer)?, look)
    }),
    (ShowWorker::ABOUT.id, |answer, look, _| {
        worker::shown(&read(answer)?, look)
    }),
    (GetDeadLetter::ABOUT.id, |answer, look, _| {
        Ok(dead_letter::one(&read(answer)?, look))
    }),
];

/// That of an operation, where it has one.
pub(super) fn of(id: &str) -> Option<Printer> {
    let found = PRINTERS.iter().find(|(of, _)| *of == id);
    found.map(|(_, print)| *print)
}

fn read<T: DeserializeOwned>(answer: &[u8]) -> Result<T, Exit> {
    serde_json::from_slice(answer).map_err(unreadable)
}
