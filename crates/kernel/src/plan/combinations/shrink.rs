//! A failing case made smaller, as long as it fails.

use super::moves::{Choice, Move};
use super::shape::{PLAIN, Shape, StepShape};
use super::small::Broken;
use super::world::{Declared, play};
use counterstep_contracts::{OnLost, OnUndoFailure, TaskDecl};
use std::fmt;

/// A declaration, and what happens to a task of it.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) shape: Shape,
    pub(super) moves: Vec<Move>,
}

impl Case {
    pub(super) fn play(&self, child: &'static TaskDecl) -> Result<(), Broken> {
        let declared = Declared {
            shape: &self.shape,
            decl: self.shape.declare(),
            child,
        };
        let mut choice = Choice::Listed {
            moves: &self.moves,
            next: 0,
        };
        play(declared, &mut choice)
    }

    /// The smallest case found that fails for the same reason, by the beginning of its words.
    pub(super) fn shrunk(self, child: &'static TaskDecl, like: &Broken) -> Self {
        let kind = |broken: &Broken| kind(&broken.0);
        let like = kind(like);
        let fails = |case: &Self| matches!(case.play(child), Err(broken) if kind(&broken) == like);
        let mut smallest = self;
        loop {
            let Some(smaller) = smallest.smaller().into_iter().find(|case| fails(case)) else {
                return smallest;
            };
            smallest = smaller;
        }
    }

    fn smaller(&self) -> Vec<Self> {
        let mut cases = Vec::new();
        let steps = 0..self.shape.steps.len();
        if steps.len() > 1 {
            for at in steps.clone().rev() {
                let shape = self.shape.without(at);
                let moves = self.moves.clone();
                cases.push(Self { shape, moves });
            }
        }
        for at in 0..self.moves.len() {
            let mut case = self.clone();
            case.moves.remove(at);
            cases.push(case);
        }
        for at in steps {
            for plainer in plainer(&self.shape.steps[at]) {
                let mut case = self.clone();
                case.shape.steps[at] = plainer;
                cases.push(case);
            }
        }
        let shape = Shape {
            on_undo_failure: OnUndoFailure::Stop,
            on_lost: OnLost::Requeue,
            max_recoveries: 3,
            timeout: false,
            fails: self.shape.fails,
            steps: self.shape.steps.clone(),
        };
        for shape in [
            Shape {
                fails: false,
                ..self.shape.clone()
            },
            shape,
        ] {
            if shape != self.shape {
                let moves = self.moves.clone();
                cases.push(Self { shape, moves });
            }
        }
        cases
    }
}

/// The words of a failure without names and numbers.
fn kind(words: &str) -> String {
    let words = words.split_whitespace();
    let plain = words.filter(|word| word.len() > 2 && word.chars().all(|it| it.is_alphabetic()));
    plain.take(9).collect::<Vec<_>>().join(" ")
}

/// The step with one thing less.
fn plainer(step: &StepShape) -> Vec<StepShape> {
    let step = *step;
    let all = [
        StepShape {
            kind: PLAIN.kind,
            ..step
        },
        StepShape {
            undo: PLAIN.undo,
            ..step
        },
        StepShape {
            beside: false,
            ..step
        },
        StepShape {
            when: PLAIN.when,
            ..step
        },
        StepShape {
            reads: None,
            ..step
        },
        StepShape {
            scratch: false,
            ..step
        },
        StepShape {
            fallback: false,
            ..step
        },
        StepShape {
            retry: PLAIN.retry,
            ..step
        },
        StepShape {
            exhausted: PLAIN.exhausted,
            ..step
        },
        StepShape {
            probe: None,
            ..step
        },
    ];
    all.into_iter().filter(|it| *it != step).collect()
}

impl fmt::Display for Case {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "declaration:\n{}moves:", self.shape)?;
        self.moves
            .iter()
            .try_for_each(|it| writeln!(out, "  {it:?}"))
    }
}
