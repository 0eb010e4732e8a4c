//! What a person may decide about a task that is parked, or has ended.

use super::child::decision;
use super::moves::Move;
use super::run::Run;
use super::shape::Kind;
use super::small::{Broken, committed, new_task, output};
use crate::client::steps_behind;
use crate::draft::{Again, Draft};
use crate::record::StepRow;
use counterstep_contracts::{Settled, SettledAs, StepStatus, TaskStatus};
use serde_json::{Value, json};

const SETTLED: [SettledAs; 3] = [SettledAs::Done, SettledAs::Undone, SettledAs::Skipped];

impl<'a> Run<'a> {
    /// The steps that stand there.
    fn steps_at(&self, status: StepStatus) -> impl Iterator<Item = usize> + '_ {
        let rows = self.record.steps.iter().enumerate();
        rows.filter(move |(_, row)| row.status == status)
            .map(|(at, _)| at)
    }

    pub(super) fn moves_of_operator(&self) -> Vec<Move> {
        let mut moves: Vec<Move> = SETTLED.map(Move::Settle).into();
        if self.record.task.status == TaskStatus::DeadLettered {
            moves.extend([Move::Undo, Move::Retry { edit: false }]);
            // As `operator::retry`: which tasks a step submits follows from the request.
            let submits = |(row, step): (&StepRow, _)| {
                matches!(step, Kind::Children { .. })
                    && row.children.is_some()
                    && row.status != StepStatus::Completed
            };
            let kinds = self.shape.steps.iter().map(|step| step.kind);
            if !self.record.steps.iter().zip(kinds).any(submits) {
                // The most interesting one.
                moves.extend([Move::Retry { edit: true }; 3]);
            }
            let open = self.steps_at(StepStatus::Failed);
            let open = open.chain(self.steps_at(StepStatus::InDoubt));
            moves.extend(open.flat_map(|at| [Move::Supply(at); 2]));
        } else {
            moves.push(Move::RetryUndo);
            let gave_up = self.steps_at(StepStatus::CompensationFailed);
            let settled = [SettledAs::Undone, SettledAs::Skipped];
            moves.extend(gave_up.flat_map(|at| settled.map(|how| Move::SettleUndo(at, how))));
        }
        moves
    }

    pub(super) fn decides(&mut self, decided: Move) -> Result<(), Broken> {
        let decision = decision();
        match decided {
            Move::Retry { edit } => {
                let request = edit.then(|| json!(self.last_request() + 1));
                if edit {
                    let starts = |(_, row): &(usize, &StepRow)| {
                        let again = [StepStatus::Waiting, StepStatus::InDoubt, StepStatus::Failed];
                        again.contains(&row.status)
                            && (row.status == StepStatus::Failed || !row.in_fallback)
                    };
                    let rows = self.record.steps.iter().enumerate();
                    let steps: Vec<usize> = rows.filter(starts).map(|(at, _)| at).collect();
                    self.effects.redriven_otherwise(&steps);
                }
                self.change(|draft| draft.redrive(request, &decision))
            }
            Move::Supply(at) => {
                self.outputs += 1;
                let output = output(
                    self.record.task.id,
                    self.decl.steps[at].name,
                    self.outputs,
                    false,
                );
                self.effects.supplied(at);
                self.change(|draft| draft.supply(at, output, &decision))
            }
            Move::Settle(settled) => {
                self.effects.settled(settled);
                let settled = Settled {
                    settled,
                    task: None,
                };
                self.change(|draft| draft.resolve_task(settled, &decision))
            }
            Move::SettleUndo(at, settled) => {
                self.effects.settled_undo(at, settled);
                self.change(|draft| draft.resolve_undo(at, settled, &decision))
            }
            _ if self.record.task.status == TaskStatus::DeadLettered => {
                self.change(|draft| draft.undo_parked(&decision))
            }
            _ => self.change(|draft| draft.retry_undo(&decision)),
        }
    }

    /// From which steps the task may run again.
    pub(super) fn moves_after_end(&self) -> Vec<Move> {
        let may = |from: &usize| {
            let name = self.decl.steps[*from].name;
            *from > 0 && steps_behind(self.decl, &self.record, name).is_ok()
        };
        let from = (0..self.decl.steps.len()).filter(may);
        from.flat_map(|from| [false, true].map(|edit| Move::RunAgain { from, edit }))
            .collect()
    }

    /// The task that runs this one again.
    pub(super) fn again(&self, from: usize, edit: bool) -> Result<Run<'a>, Broken> {
        let name = self.decl.steps[from].name;
        let kept = steps_behind(self.decl, &self.record, name).unwrap_or_default();
        let again = Again {
            details: Value::Null,
            kept,
        };
        let request = self.last_request() + u64::from(edit);
        let mut draft = Draft::of_submission(self.decl, new_task(2, request, None), "client");
        draft.set_again(again);
        draft.submit(Vec::new(), |_| Value::Null)?;
        let mut record = committed(&draft);
        record.now = self.record.now;
        let mut run = Run::new(self.shape, self.decl, self.child_decl, record);
        run.outputs = self.outputs;
        Ok(run)
    }
}
