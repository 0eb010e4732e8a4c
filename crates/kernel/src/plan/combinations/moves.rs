//! What may happen to a task from outside, one move after the other, and who chooses.

use super::small::Chance;
use counterstep_contracts::SettledAs;

/// What happens next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Move {
    /// What happens where nothing special does: attempts succeed, time passes, parked tasks are undone.
    Go,
    /// Of the attempts under way, the one at this place ends so.
    Ends(usize, How),
    /// The host is lost. `acted`: what ran had taken effect. `claimed`: another host claims the task
    /// without the reconciler.
    LoseHost { acted: bool, claimed: bool },
    /// The reply of the last commit is lost, and what it started has not begun.
    LoseReply,
    /// The process is told to stop, and interrupts what runs.
    ShutDown { acted: bool },
    /// The attempt at this place succeeds while the database is away. `fenced`: before the result can be
    /// written another host has the task.
    KeepResult { at: usize, fenced: bool },
    /// The scratch files of the host are gone.
    LoseScratch,
    /// A client cancels.
    Cancel,
    /// A signal for the step at this position.
    Signal(usize),
    /// The time of the next wait passes.
    Pass,
    /// Of the probes under way, that of the step at this position ends so.
    Probed(usize, Found),
    /// A dead letter runs on, with another request.
    Retry { edit: bool },
    /// A person supplies the output of the step at this position.
    Supply(usize),
    /// A dead letter is undone.
    Undo,
    /// Undos that gave up are tried again.
    RetryUndo,
    /// The undo of the step at this position is settled by a person.
    SettleUndo(usize, SettledAs),
    /// The task is settled by a person.
    Settle(SettledAs),
    /// The child at this place goes on.
    Child(usize, ChildMove),
    /// The task has ended, and runs again from the step at this position, with another request.
    RunAgain { from: usize, edit: bool },
}

/// How an attempt ends that does not succeed. `acted`: it took effect all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    Transient {
        acted: bool,
    },
    Permanent {
        acted: bool,
    },
    NotSent,
    Stopped {
        acted: bool,
    },
    /// Made again, it came out different.
    Different,
}

/// What a probe comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Unknown,
    Fails,
}

/// What a child does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChildMove {
    /// Its host starts what takes effect.
    Begins,
    Completes,
    Fails,
    /// Its step behind the effect is a dead letter.
    Parks,
    /// It has heard that it is to stop, or is undone.
    Undoes,
    UndoFails,
    Settled(SettledAs),
}

/// Who chooses among the moves that are possible.
#[derive(Debug)]
pub(super) enum Choice<'a> {
    /// Moves chosen at random, `left` more of them, and only [`Move::Go`] afterwards.
    Chance {
        chance: &'a mut Chance,
        left: usize,
        taken: Vec<Move>,
    },
    /// These, as far as they are possible.
    Listed { moves: &'a [Move], next: usize },
}

impl Choice<'_> {
    /// One of these, or [`Move::Go`].
    pub(super) fn among(&mut self, offered: &[Move]) -> Move {
        match self {
            Self::Chance {
                chance,
                left,
                taken,
            } => {
                if *left == 0 {
                    return Move::Go;
                }
                *left -= 1;
                let chosen = if chance.percent(40) || offered.is_empty() {
                    Move::Go
                } else {
                    offered[chance.below(offered.len())]
                };
                taken.push(chosen);
                chosen
            }
            Self::Listed { moves, next } => {
                while let Some(&listed) = moves.get(*next) {
                    *next += 1;
                    if listed == Move::Go || offered.contains(&listed) {
                        return listed;
                    }
                }
                Move::Go
            }
        }
    }
}
