//! Outputs that a row of the journal has taken or replaced. The judge knows events and no outputs, so it
//! cannot see them.

use super::again::Before;
use counterstep_contracts::{StepNo, StepStatus, TaskDecl};
use counterstep_kernel::record::AuditRow;
use counterstep_kernel::saga::StepEvent;

/// Of the steps whose output a change has taken or replaced, each whose scratch was not lost, or by whose output
/// another one has completed, as text.
pub(super) fn not_lost(
    decl: &TaskDecl,
    before: &Before,
    events: &[AuditRow],
    replaced: &[StepNo],
) -> Vec<String> {
    let is_lost = |no: StepNo| {
        let mut entries = events.iter().map(|row| &row.entry);
        entries.any(|it| it.step == Some(no) && it.event == StepEvent::ScratchLost.name())
    };
    let reader_of = |no: StepNo| {
        let step = decl.steps.iter().find(|step| step.no == no)?;
        let reads = |reader: StepNo| {
            let mut steps = decl.steps.iter();
            steps.any(|it| it.no == reader && it.reads(step.name))
        };
        let mut steps = before.steps.iter();
        let reader = steps.find(|it| it.status == StepStatus::Completed && reads(it.no))?;
        Some(reader.no)
    };
    let says = |&no: &StepNo| match reader_of(no) {
        _ if !is_lost(no) => Some(format!(
            "it replaces the output of step {no}, whose scratch was not lost"
        )),
        Some(reader) => Some(format!(
            "it takes the output of step {no}, by which step {reader} has completed"
        )),
        None => None,
    };
    replaced.iter().filter_map(says).collect()
}
