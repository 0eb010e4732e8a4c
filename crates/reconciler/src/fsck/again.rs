//! Events that stand in a journal, put before the judge once more. What an event was judged on is
//! read from the rows before and after its change, so that a rule that has become stricter since
//! shows here and nowhere else.

use counterstep_contracts::{Rev, StepNo, StepStatus, TaskDecl, TaskStatus};
use counterstep_kernel::record::{AuditRow, StepRow, TaskRecord};
use counterstep_kernel::saga::{Event, Ruling, State, StepEvent, StepState, judge};

/// What the judge asks of a task, before a change of it.
pub(super) struct Before {
    status: Option<TaskStatus>,
    is_cancel_requested: bool,
    pub(super) steps: Vec<Marks>,
}

impl Before {
    pub(super) fn of(record: &TaskRecord) -> Self {
        Self {
            status: (record.task.rev != Rev(0)).then_some(record.task.status),
            is_cancel_requested: record.task.cancel_requested_at.is_some(),
            steps: steps_of(record),
        }
    }
}

/// What the judge asks of a step beside its declaration.
#[derive(Clone, Copy)]
pub(super) struct Marks {
    pub(super) no: StepNo,
    pub(super) status: StepStatus,
    started: bool,
    kept: bool,
}

fn steps_of(record: &TaskRecord) -> Vec<Marks> {
    let marks = |row: &StepRow| Marks {
        no: row.no,
        status: row.status,
        started: row.started_seq.is_some(),
        kept: row.kept,
    };
    record.steps.iter().map(marks).collect()
}

/// What each event of a change is that the judge does not allow, as text.
pub(super) fn illegal(
    decl: &TaskDecl,
    before: &Before,
    after: &TaskRecord,
    events: &[AuditRow],
) -> Vec<String> {
    // A change marks a step as started, or not, and a cancel as accepted, before an event of it or
    // behind.
    let ends = steps_of(after);
    let mut started = [
        states(decl, &before.steps, &before.steps),
        states(decl, &before.steps, &ends),
    ];
    let cancels = [
        before.is_cancel_requested,
        after.task.cancel_requested_at.is_some(),
    ];
    let mut status = before.status;
    let mut found = Vec::new();
    for entry in events.iter().map(|row| &row.entry) {
        let place = entry
            .step
            .map(|no| decl.steps.iter().position(|step| step.no == no));
        let at = place.flatten();
        let ruling = Ruling {
            task: entry.to,
            step: at.zip(entry.step_to),
        };
        let is_legal = |event: Event| {
            cancels.iter().any(|&cancel_requested| {
                started.iter().any(|steps| {
                    judge(
                        &State {
                            status,
                            cancel_requested,
                            is_child: after.task.parent.is_some(),
                            steps,
                        },
                        event,
                    ) == Ok(ruling)
                })
            })
        };
        let is_of_decl = place != Some(None);
        if !(is_of_decl
            && Event::named(&entry.event, at.unwrap_or_default())
                .into_iter()
                .any(is_legal))
        {
            let of_step = entry
                .step
                .map_or_else(String::new, |no| format!(" of step {no}"));
            let was = status.map_or("not there", TaskStatus::as_str);
            let to = entry.step_to.map_or(entry.to.as_str(), StepStatus::as_str);
            found.push(format!(
                "event {}, `{}`{of_step}, leads to {to}: not from a task that is {was}",
                entry.seq, entry.event
            ));
        }
        status = Some(entry.to);
        if let Some((at, to)) = ruling.step {
            for steps in &mut started {
                steps[at].status = to;
                let starts = [StepEvent::Started, StepEvent::Supplied].map(StepEvent::name);
                steps[at].started |= starts.contains(&entry.event.as_str());
            }
        }
    }
    // No state changes without an event.
    if status != Some(after.task.status) {
        found.push(format!(
            "it leaves the task {} without an event",
            after.task.status
        ));
    }
    for (step, was) in decl.steps.iter().zip(&started[0]) {
        let is = ends
            .iter()
            .find(|row| row.no == step.no)
            .map_or(StepStatus::Pending, |row| row.status);
        if is != was.status {
            found.push(format!("it leaves step {} {is} without an event", step.no));
        }
    }
    found
}

/// The steps with their states in `rows` and their starts in `marks`. What is kept is from the first change on.
fn states(decl: &TaskDecl, rows: &[Marks], marks: &[Marks]) -> Vec<StepState> {
    let of = |rows: &[Marks], no| rows.iter().find(|row| row.no == no).copied();
    decl.steps
        .iter()
        .map(|step| {
            let marks = of(marks, step.no);
            StepState {
                status: of(rows, step.no).map_or(StepStatus::Pending, |row| row.status),
                effects: step.undo.has_effects() && !marks.is_some_and(|row| row.kept),
                started: marks.is_some_and(|row| row.started),
            }
        })
        .collect()
}
