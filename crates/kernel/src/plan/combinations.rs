//! Combinations that no one has thought of: small declarations by chance, with what hosts, clients and
//! operators do to a task of each, run against the planner and the judge. Whatever happens,
//!
//! - what a step has done is undone once, by the request that it was done by, or the task says
//!   `residue`;
//! - undos come in the reverse order of the first starts, and each waiver is recorded once;
//! - an output on which a decision rests stays as it is;
//! - nothing starts once the task is being undone, and a step does not fail that has what it waits for;
//! - the planner decides nothing that the judge refuses, and each task comes to its end.
//!
//! `SEED=7` runs the cases of one seed.

mod child;
mod effects;
mod ends;
mod moves;
mod operator;
mod run;
mod shape;
mod shrink;
mod small;
mod world;

use counterstep_contracts::{OnExhausted, TaskDecl};
use moves::{Choice, Move};
use shape::{PLAIN, Shape, Undo};
use shrink::Case;
use small::{Broken, Chance};
use world::{Declared, play};

/// Cases in all.
const CASES: u64 = 100_000;

/// Cases of a seed.
const OF_SEED: u64 = 1_000;

/// Cases of a declaration: declarations stay in memory.
const OF_DECLARATION: u64 = 8;

/// Moves by chance of a case.
const MOVES: usize = 14;

/// The tasks that steps submit.
fn child() -> &'static TaskDecl {
    let parks = shape::StepShape {
        undo: Undo::Waived,
        exhausted: OnExhausted::DeadLetter,
        ..PLAIN
    };
    let shape = Shape {
        steps: vec![PLAIN, parks],
        on_undo_failure: counterstep_contracts::OnUndoFailure::Stop,
        on_lost: counterstep_contracts::OnLost::Requeue,
        max_recoveries: 3,
        timeout: false,
        fails: false,
    };
    shape.declare()
}

/// The first case of a seed that fails.
fn failing(seed: u64, child: &'static TaskDecl) -> Option<(Case, Broken)> {
    let mut chance = Chance::of(seed);
    for _ in 0..OF_SEED / OF_DECLARATION {
        let shape = Shape::by(&mut chance);
        let decl = shape.declare();
        for _ in 0..OF_DECLARATION {
            let mut choice = Choice::Chance {
                chance: &mut chance,
                left: MOVES,
                taken: Vec::new(),
            };
            let declared = Declared {
                shape: &shape,
                decl,
                child,
            };
            let played = play(declared, &mut choice);
            if let (Err(broken), Choice::Chance { taken, .. }) = (played, choice) {
                let moves: Vec<Move> = taken;
                return Some((Case { shape, moves }, broken));
            }
        }
    }
    None
}

#[test]
fn whatever_happens_to_a_task_what_it_did_is_undone_or_known() {
    let child = child();
    let seeds = match std::env::var("SEED") {
        Ok(seed) => {
            let seed: u64 = seed.parse().expect("SEED is a number");
            seed..seed + 1
        }
        Err(_) => 0..CASES / OF_SEED,
    };
    for seed in seeds {
        if let Some((case, broken)) = failing(seed, child) {
            let shrunk = case.shrunk(child, &broken);
            let why = shrunk.play(child).err().map_or(broken.0, |broken| broken.0);
            panic!("SEED={seed}: {why}\n{shrunk}");
        }
    }
}
