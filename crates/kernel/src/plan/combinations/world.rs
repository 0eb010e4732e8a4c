//! A case from its submission to its end: which moves are possible, and what each does.

use super::child::Child;
use super::moves::{ChildMove, Choice, Found, How, Move};
use super::run::Run;
use super::shape::{Kind, Shape, StepShape, Undo};
use super::small::{Broken, START, broken, committed, new_task};
use crate::draft::Draft;
use counterstep_contracts::{Direction, SettledAs, StepStatus, TaskDecl};
use serde_json::Value;

/// A case has come to its end long before.
const MOST: usize = 400;

/// The declarations of a case.
#[derive(Debug, Clone, Copy)]
pub(super) struct Declared<'a> {
    pub(super) shape: &'a Shape,
    pub(super) decl: &'static TaskDecl,
    pub(super) child: &'static TaskDecl,
}

/// Runs a task of this declaration to its end.
pub(super) fn play(declared: Declared<'_>, choice: &mut Choice<'_>) -> Result<(), Broken> {
    let Declared { shape, decl, child } = declared;
    let mut draft = Draft::of_submission(decl, new_task(1, 0, None), "client");
    draft.submit(Vec::new(), |_| Value::Null)?;
    let mut record = committed(&draft);
    record.now = START;
    record.task.deadline_at = decl.timeout.map(|timeout| START.later(timeout));
    let mut run = Run::new(shape, decl, child, record);
    run.reach_end(choice)?;
    if let Move::RunAgain { from, edit } = choice.among(&run.moves_after_end()) {
        run.again(from, edit)?.reach_end(choice)?;
    }
    Ok(())
}

impl Run<'_> {
    fn reach_end(&mut self, choice: &mut Choice<'_>) -> Result<(), Broken> {
        for _ in 0..MOST {
            let status = self.record.task.status;
            if status.is_terminal() {
                return self.check_end();
            }
            if status.is_parked() {
                let mut moves = self.moves_of_operator();
                moves.extend(self.moves_of_children());
                match choice.among(&moves) {
                    Move::Child(at, goes) => self.child_goes(at, goes)?,
                    decided => self.decides(decided)?,
                }
            } else if self.record.task.lease_owner.is_some() {
                let chosen = choice.among(&self.moves_of_turn());
                self.turns(chosen)?;
            } else {
                let chosen = choice.among(&self.moves_at_rest());
                self.rests(chosen)?;
            }
        }
        broken("the task does not come to its end")
    }

    fn check_end(&self) -> Result<(), Broken> {
        let by_hand = self.record.task.settled;
        let by_hand = by_hand.is_some_and(|it| it.settled != SettledAs::Skipped);
        let is_undone = |child: &&Child| self.shape.steps[child.of].undo != Undo::Waived;
        let mut below = self.children.iter().filter(is_undone);
        let stands = !by_hand && below.any(|child| child.has_acted);
        self.effects.check_end(&self.record, stands)
    }

    /// Moves that are possible whether or not a host has the task.
    fn moves_at_any_time(&self) -> Vec<Move> {
        let mut moves = self.moves_of_children();
        let task = &self.record.task;
        if !self.goes_forward() || task.cancel_requested_at.is_some() {
            return moves;
        }
        moves.extend([Move::Cancel, Move::LoseScratch]);
        for (at, (step, row)) in self.shape.steps.iter().zip(&self.record.steps).enumerate() {
            let awaits = matches!(row.status, StepStatus::Pending | StepStatus::Waiting);
            if is_signal(step) && awaits && row.signal.is_none() {
                moves.push(Move::Signal(at));
            }
        }
        moves
    }

    fn moves_of_children(&self) -> Vec<Move> {
        let children = self.children.iter().enumerate();
        let moves = children.flat_map(|(at, child)| {
            let goes = child.moves().iter();
            goes.map(move |&goes| Move::Child(at, goes))
        });
        moves.collect()
    }

    fn moves_of_turn(&self) -> Vec<Move> {
        let mut moves = self.moves_at_any_time();
        let is_stopped = self.record.task.cancel_requested_at.is_some()
            || self
                .record
                .steps
                .iter()
                .any(|row| row.status == StepStatus::Failed);
        for (place, open) in self.open.iter().enumerate() {
            for acted in [false, true, true] {
                moves.push(Move::Ends(place, How::Transient { acted }));
                moves.push(Move::Ends(place, How::Permanent { acted }));
                if is_stopped && open.direction == Direction::Forward {
                    moves.push(Move::Ends(place, How::Stopped { acted }));
                }
            }
            for fenced in [false, true] {
                moves.push(Move::KeepResult { at: place, fenced });
            }
            let row = &self.record.steps[open.at];
            let is_call = self.shape.steps[open.at].kind == Kind::Call && !row.in_fallback;
            if is_call && open.direction == Direction::Forward {
                moves.extend([Move::Ends(place, How::NotSent); 2]);
            }
            if open.rebuilds {
                moves.push(Move::Ends(place, How::Different));
            }
        }
        for &at in &self.memory.probes.asked {
            moves.extend([Found::Unknown, Found::Fails].map(|found| Move::Probed(at, found)));
        }
        for acted in [false, true] {
            moves.extend([false, true].map(|claimed| Move::LoseHost { acted, claimed }));
            moves.push(Move::ShutDown { acted });
        }
        if self.fresh > 0 && self.fresh <= self.open.len() {
            moves.push(Move::LoseReply);
        }
        moves
    }

    fn turns(&mut self, chosen: Move) -> Result<(), Broken> {
        match chosen {
            Move::Ends(place, how) => self.fails(place, how),
            Move::KeepResult { at, fenced } => self.keeps_result(at, fenced),
            Move::LoseHost { acted, claimed } => self.loses_host(acted, claimed),
            Move::LoseReply => self.loses_reply(),
            Move::ShutDown { acted } => self.shuts_down(acted),
            Move::Probed(at, found) => self.probed(at, Some(found)),
            Move::Go if self.fails_by_itself() => self.fails(0, How::Permanent { acted: true }),
            Move::Go if !self.open.is_empty() => self.succeeds(0),
            Move::Go => match self.memory.probes.asked.first().copied() {
                Some(at) => self.probed(at, None),
                None => broken("a host has the task, and nothing is under way"),
            },
            other => self.at_any_time(other),
        }
    }

    fn fails_by_itself(&self) -> bool {
        let last = self.shape.steps.len() - 1;
        self.shape.fails
            && self.open.first().is_some_and(|open| {
                open.at == last && open.direction == Direction::Forward && !open.rebuilds
            })
    }

    fn moves_at_rest(&self) -> Vec<Move> {
        let mut moves = self.moves_at_any_time();
        if !self.record.due_in().is_zero() {
            moves.extend([Move::Pass; 2]);
        }
        moves
    }

    /// No host has the task.
    fn rests(&mut self, chosen: Move) -> Result<(), Broken> {
        match chosen {
            Move::Pass => {
                self.passes();
                Ok(())
            }
            Move::Go if self.record.due_in().is_zero() => self.claim(),
            Move::Go => self.wakes(),
            other => self.at_any_time(other),
        }
    }

    /// The time passes until the task is due.
    fn passes(&mut self) {
        self.record.now = self.record.task.due_at.unwrap_or(self.record.now);
    }

    /// What it waits for comes.
    fn wakes(&mut self) -> Result<(), Broken> {
        let waits = |(step, row): (&StepShape, &crate::record::StepRow)| {
            is_signal(step) && row.status == StepStatus::Waiting && row.signal.is_none()
        };
        let mut steps = self.shape.steps.iter().zip(&self.record.steps);
        if self.goes_forward()
            && let Some(at) = steps.position(waits)
        {
            let in_fallback = self.record.steps[at].in_fallback;
            if !in_fallback {
                return self.at_any_time(Move::Signal(at));
            }
        }
        if let Some(Move::Child(at, goes)) = self.moves_of_children().first().copied() {
            return self.child_goes(at, goes);
        }
        self.passes();
        Ok(())
    }

    fn at_any_time(&mut self, chosen: Move) -> Result<(), Broken> {
        match chosen {
            Move::Cancel => self.change(|draft| draft.cancel(None).map(drop)),
            Move::LoseScratch => {
                self.files.clear();
                Ok(())
            }
            Move::Signal(at) => {
                let signal = crate::record::SignalRow {
                    body: Value::from(7),
                    actor: "client".to_owned(),
                    at: self.record.now,
                };
                self.change(|draft| draft.receive_signal(at, signal))
            }
            Move::Child(at, goes) => self.child_goes(at, goes),
            _ => Ok(()),
        }
    }

    fn child_goes(&mut self, at: usize, goes: ChildMove) -> Result<(), Broken> {
        let child = &mut self.children[at];
        child.goes(goes)?;
        let task = &mut self.record.task;
        // It wakes its parent, where that sleeps.
        if child.status().is_terminal() && task.lease_owner.is_none() {
            task.due_at = None;
        }
        Ok(())
    }
}

fn is_signal(step: &StepShape) -> bool {
    matches!(step.kind, Kind::Signal { .. })
}
