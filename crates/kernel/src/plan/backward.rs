//! A task that goes backward: what of the stage that `undo_order` says is undone now, and what is waited for.

use super::children;
use super::decision::{Decision, HOLD, SHUTS_DOWN};
use super::undo_order::{self, BackwardPlan};
use super::view::View;
use crate::retry_decision::INLINE_LIMIT;
use crate::task::Probe;
use crate::waits::LONGEST_WAIT;
use counterstep_contracts::OnUndoFailure;

/// Why a task rests in its undo, for the audit: an attempt is not due yet.
const DUE_LATER: &str = "the next attempt of an undo is due later";

/// Or other tasks are undone first.
const CHILDREN_FIRST: &str = "tasks that it has submitted are being undone";

pub(super) fn decide(view: &View<'_>) -> Decision {
    let go_on = view.decl.on_undo_failure == OnUndoFailure::Continue;
    let active = (0..view.record.steps.len()).any(|at| is_active(view, at));
    let stage = match undo_order::backward(view.decl, &view.record.steps, go_on) {
        // A sibling's undo may still be under way when another one has given up. One that waits for
        // its next attempt is not tried again behind that.
        BackwardPlan::Finish if active => return HOLD,
        BackwardPlan::Finish => return Decision::FinishUndo,
        BackwardPlan::Undo(stage) => stage,
    };
    if view.facts.is_leaving() {
        return if active {
            HOLD
        } else {
            Decision::HandOver(view.host, SHUTS_DOWN)
        };
    }
    let due: Vec<usize> = stage
        .into_iter()
        .filter(|at| !is_active(view, *at) && !view.facts.delayed_undos.contains_key(at))
        .collect();
    if due.is_empty() {
        return between_attempts(view, active);
    }
    let (children, due): (Vec<usize>, Vec<usize>) = due
        .into_iter()
        .partition(|&at| children::are_undone_with(view, at));
    if let Some(decision) = children.iter().find_map(|&at| children::undo(view, at)) {
        return decision;
    }
    if due.is_empty() {
        return rest_for_children(view, active);
    }
    let ask = view.unprobed(&due);
    if !ask.is_empty() {
        return Decision::Probe(ask);
    }
    let not_done = view.found(&due, |found| matches!(found, Probe::NothingHappened));
    if !not_done.is_empty() {
        return Decision::SettleNotDone(not_done);
    }
    Decision::Undo(due)
}

/// Whether an undo attempt or a probe of the step is under way.
fn is_active(view: &View<'_>, at: usize) -> bool {
    view.step(at).attempt_open || view.facts.probes.asked.contains(&at)
}

/// Nothing is left of the stage but tasks that are being undone.
fn rest_for_children(view: &View<'_>, active: bool) -> Decision {
    let delayed = view.facts.delayed_undos.values().min();
    let until_look = children::look_again(view).unwrap_or(LONGEST_WAIT);
    match delayed {
        Some(left) if *left < INLINE_LIMIT => HOLD,
        _ if active => HOLD,
        left => Decision::RestInUndo {
            left: left.map_or(until_look, |left| until_look.min(*left)),
            why: CHILDREN_FIRST,
        },
    }
}

/// No undo can start now: long waits for the next attempt are slept through, each to the first that is due.
fn between_attempts(view: &View<'_>, active: bool) -> Decision {
    let first = view.facts.delayed_undos.values().min();
    match first {
        Some(&left) if !active && left >= INLINE_LIMIT => Decision::RestInUndo {
            left,
            why: DUE_LATER,
        },
        Some(_) | None => HOLD,
    }
}
