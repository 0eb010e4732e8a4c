//! Which steps a task has behind it where it runs again from one of them. A pure function of its rows and its
//! declaration.

use crate::draft::KeptStep;
use crate::plan;
use crate::record::TaskRecord;
use crate::scratch::scratch_files_in;
use counterstep_contracts::{SettledAs, StepStatus, TaskDecl};

/// A task cannot run again from a step.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CannotKeep {
    /// Its type has no step of this name.
    #[error("the task has no such step; it has {0}")]
    NoSuchStep(String),
    /// This program has another version or definition of its type.
    #[error(
        "this program has another version or definition of the task's type: it can run again from the start only"
    )]
    DeclarationChanged,
    /// An earlier step was undone, or a person has settled its undo.
    #[error("step `{step}` is {status}: what it did is not there any more")]
    Undone {
        /// Which.
        step: &'static str,
        /// Where it stands.
        status: StepStatus,
    },
    /// An earlier step has not completed.
    #[error("step `{step}` is {status}: only behind completed steps can the task run again")]
    NotCompleted {
        /// Which.
        step: &'static str,
        /// Where it stands.
        status: StepStatus,
    },
    /// An earlier step has submitted tasks.
    #[error(
        "step `{0}` has submitted tasks, which are those of the old task: run it again from that step, or an earlier one"
    )]
    Submitted(&'static str),
    /// A step that runs reads local files of an earlier one.
    #[error(
        "step `{reader}` reads local files of step `{step}`: run the task again from that step, or an earlier one"
    )]
    Scratch {
        /// Whose files.
        step: &'static str,
        /// Who reads them.
        reader: &'static str,
    },
    /// The output of an earlier step was erased.
    #[error("the output of step `{0}` has been erased")]
    Erased(&'static str),
    /// The output of an earlier step names an object in a form of its own, which cannot be made to name a copy.
    #[error(
        "the output of step `{0}` names an object by its key alone: run the task again from that step, or an earlier one"
    )]
    KeyAlone(&'static str),
}

/// The steps before the stage of this one, with what they gave.
pub(crate) fn kept(
    decl: &TaskDecl,
    record: &TaskRecord,
    from: &str,
) -> Result<Vec<KeptStep>, CannotKeep> {
    let Some(at) = decl.steps.iter().position(|step| step.name == from) else {
        let known: Vec<_> = decl.steps.iter().map(|step| step.name).collect();
        return Err(CannotKeep::NoSuchStep(known.join(", ")));
    };
    let settled = record.task.settled.as_ref();
    let was_undone_by_hand = settled.is_some_and(|it| it.settled == SettledAs::Undone);
    // The steps of a group go side by side, and start together.
    let first = plan::stage_of(decl, at).into_iter().min().unwrap_or(at);
    let mut kept = Vec::with_capacity(first);
    for (at, (step, row)) in decl.steps.iter().zip(&record.steps).enumerate().take(first) {
        let (step, status) = (step, row.status);
        match status {
            StepStatus::Completed if step.has_children() => {
                return Err(CannotKeep::Submitted(step.name));
            }
            // By a person, who has settled the whole task so.
            StepStatus::Completed if step.undo.has_effects() && was_undone_by_hand => {
                return Err(CannotKeep::Undone {
                    step: step.name,
                    status: StepStatus::Resolved,
                });
            }
            StepStatus::Completed => {}
            StepStatus::Skipped => {
                kept.push(KeptStep {
                    at,
                    output: None,
                    has_files: false,
                });
                continue;
            }
            StepStatus::Compensating
            | StepStatus::Compensated
            | StepStatus::CompensationFailed
            | StepStatus::Resolved => {
                return Err(CannotKeep::Undone {
                    step: step.name,
                    status,
                });
            }
            StepStatus::Pending
            | StepStatus::Running
            | StepStatus::Waiting
            | StepStatus::Failed
            | StepStatus::InDoubt => {
                return Err(CannotKeep::NotCompleted {
                    step: step.name,
                    status,
                });
            }
        }
        let output = row.output.clone().ok_or(CannotKeep::Erased(step.name))?;
        let mut later = decl.steps[first..].iter();
        if !scratch_files_in(record.task.id, &output).is_empty()
            && let Some(reader) = later.find(|later| later.reads(step.name))
        {
            return Err(CannotKeep::Scratch {
                step: step.name,
                reader: reader.name,
            });
        }
        kept.push(KeptStep {
            at,
            output: Some(output),
            has_files: false,
        });
    }
    Ok(kept)
}
