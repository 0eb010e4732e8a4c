//! A task that goes forward.

use super::children;
use super::decision::{Decision, HOLD, SHUTS_DOWN, sleep, sleep_held_back};
use super::stages::{self, ForwardPlan};
use super::view::View;
use super::{after_failure, scratch, waits};
use crate::cancel::CancelReason;
use crate::error::{ErrorClass, StepError};
use crate::record::{DbTime, Failure, StepFailure, StepRow, UNREADABLE};
use crate::retry_decision::INLINE_LIMIT;
use crate::task::Probe;
use crate::waits::LONGEST_WAIT;
use counterstep_contracts::cause::FailureClass;
use counterstep_contracts::{Direction, OnExhausted, StepStatus, WaitReason};
use std::time::Duration;

pub(super) fn decide(view: &View<'_>) -> Decision {
    if scratch::is_rebuilding(view) || !view.facts.probes.asked.is_empty() {
        return HOLD;
    }
    let running = view.has(StepStatus::Running);
    let given_up = reason_to_give_up(view);
    if running {
        // Beside those that run a sibling may start again, unless something speaks against going
        // on.
        if view.is_cancelled() || view.facts.is_leaving() || given_up.is_some() {
            return HOLD;
        }
    } else if view.is_cancelled() {
        return Decision::Stop;
    } else if let Some((failure, policy)) = given_up {
        return give_up(view, failure, policy);
    }
    if let Some(&left) = view.facts.delayed_rebuilds.values().max() {
        return between_rebuilds(view, left);
    }
    match stages::forward(view.decl, &view.record.steps, view.record.now) {
        ForwardPlan::Finish => Decision::Complete,
        ForwardPlan::Hold if running => HOLD,
        ForwardPlan::Hold => rest(view),
        ForwardPlan::Start(stage) => conditions(view, &stage)
            .or_else(|| elsewhere(view, &stage))
            .or_else(|| waits::decide(view, &stage))
            .unwrap_or_else(|| start_others(view, stage, running)),
    }
}

/// A person decides about a parked task by its rows, perhaps when the outside has long forgotten: they say
/// first what probes beside the failure have found.
fn give_up(view: &View<'_>, failure: Failure, policy: OnExhausted) -> Decision {
    let all: Vec<usize> = (0..view.record.steps.len()).collect();
    let done = view.found(&all, |found| matches!(found, Probe::Done(_)));
    if policy == OnExhausted::DeadLetter && !done.is_empty() {
        return Decision::SettleDone(done);
    }
    Decision::GiveUp(failure, policy)
}

/// Starts a stage, but for its steps whose tasks are under way.
fn start_others(view: &View<'_>, mut stage: Vec<usize>, running: bool) -> Decision {
    stage.retain(|&at| {
        !view.decl.steps[at].has_children() || view.step(at).status != StepStatus::Waiting
    });
    match (stage.is_empty(), running) {
        (false, _) => start(view, stage, running),
        (true, true) => HOLD,
        (true, false) => rest(view),
    }
}

/// The stage waits until its lost scratch can be made again.
fn between_rebuilds(view: &View<'_>, left: Duration) -> Decision {
    if view.has(StepStatus::Running) {
        HOLD
    } else if left >= INLINE_LIMIT {
        sleep(WaitReason::Retry, left)
    } else if view.facts.is_leaving() {
        Decision::HandOver(view.host, SHUTS_DOWN)
    } else {
        HOLD
    }
}

/// Nothing runs, and nothing may start before something is due: long waits are slept through.
fn rest(view: &View<'_>) -> Decision {
    let look_again = children::look_again(view);
    let left = |(at, due): (usize, DbTime)| {
        let left = match look_again {
            // Its time may be over: that is found out with what became of its tasks.
            Some(again) if view.facts.unseen_children.contains(&at) => again,
            _ => due.after(view.record.now),
        };
        // Its time is over, and it waits all the same: enough of its tasks have completed, and one
        // that stops wakes it.
        let stops = left.is_zero() && view.decl.steps[at].has_children();
        (at, if stops { LONGEST_WAIT } else { left })
    };
    let waits = stages::due_times(view.decl, &view.record.steps);
    let Some((at, left)) = waits.into_iter().map(left).min_by_key(|(_, left)| *left) else {
        return HOLD;
    };
    if left < INLINE_LIMIT {
        match view.facts.interrupted {
            None => return HOLD,
            Some(CancelReason::Shutdown) => return Decision::HandOver(view.host, SHUTS_DOWN),
            // The rows know more than this view: the commit of the decision finds out what.
            Some(CancelReason::Requested | CancelReason::Sibling | CancelReason::LeaseLost) => {}
        }
    }
    sleep(
        waits::reason(view, at),
        look_again.map_or(left, |again| again.min(left)),
    )
}

/// A step that has failed, or the deadline of the task.
fn reason_to_give_up(view: &View<'_>) -> Option<(Failure, OnExhausted)> {
    let record = view.record;
    let failed = |row: &StepRow| row.status == StepStatus::Failed;
    // The siblings that it took with it have failed too; the culprit is the one that was not
    // cancelled.
    let culprit = |row: &StepRow| {
        failed(row)
            && row
                .error
                .as_ref()
                .is_some_and(|error| !error.is_cancelled())
    };
    let steps = &record.steps;
    if let Some(at) = steps
        .iter()
        .position(culprit)
        .or_else(|| steps.iter().position(failed))
    {
        let decl = &view.decl.steps[at];
        let error = steps[at].error.clone();
        let error = error.unwrap_or_else(|| StepFailure {
            class: ErrorClass::Permanent.as_str().to_owned(),
            message: "it failed".to_owned(),
            origin: None,
        });
        // Its tasks have ended well, and only a person can find out with what.
        let policy = if error.class == UNREADABLE {
            OnExhausted::DeadLetter
        } else {
            decl.on_exhausted
        };
        return Some((error.of_task(decl.name, Direction::Forward), policy));
    }
    let unknown = |row: &StepRow| {
        row.status == StepStatus::InDoubt && row.probe.is_some_and(|probe| probe.gave_up)
    };
    if let Some(row) = steps.iter().find(|row| unknown(row)) {
        return Some((after_failure::unknown_outcome(row), OnExhausted::DeadLetter));
    }
    record.is_past_deadline().then(|| {
        let failure = Failure {
            class: FailureClass::Deadline.as_str().to_owned(),
            message: "the task ran into its deadline, counted from its submission".to_owned(),
            side: Some(Direction::Forward),
            ..Failure::default()
        };
        (failure, OnExhausted::Compensate)
    })
}

/// Conditions of steps that have not started. One that is pending since its scratch was lost has: what
/// it did stays, whatever its condition would find now.
fn conditions(view: &View<'_>, stage: &[usize]) -> Option<Decision> {
    let conditional =
        |at: &usize| view.decl.steps[*at].when.is_some() && !stages::has_decided(view.step(*at));
    let known = &view.answers.conditions;
    let stage: Vec<usize> = stage.iter().copied().filter(conditional).collect();
    if stage.iter().any(|at| !known.contains_key(at)) {
        return Some(Decision::AskConditions(stage));
    }
    stage.into_iter().find_map(|at| match known.get(&at)? {
        Ok(true) => None,
        Ok(false) => Some(Decision::Skip(at)),
        Err(error) => Some(step_gives_up(view, at, error)),
    })
}

/// A stage of another kind of host, or of a process that shuts down.
fn elsewhere(view: &View<'_>, stage: &[usize]) -> Option<Decision> {
    let host = view.decl.steps[stage[0]].host;
    if host != view.host {
        return Some(Decision::HandOver(host, "the next step runs there"));
    }
    // Another host would have to make the files again that a step of the stage reads: while there is
    // time, it runs here.
    let reads_here =
        || scratch::is_read_by(view, stage) && scratch::lost_input(view, stage).is_none();
    let leaves = view.facts.stopping || view.facts.draining && !reads_here();
    leaves.then_some(Decision::HandOver(view.host, SHUTS_DOWN))
}

/// Starts a stage, or what of it is due beside what is `running`.
fn start(view: &View<'_>, stage: Vec<usize>, running: bool) -> Decision {
    let (held_back, stage): (Vec<usize>, Vec<usize>) = stage
        .into_iter()
        .partition(|at| view.facts.held_back.contains_key(at));
    if stage.is_empty() {
        return wait_held_back(view, &held_back, running);
    }
    if let Some((at, error)) = scratch::unreachable(view, &stage).filter(|_| !running) {
        return step_gives_up(view, at, &error);
    }
    if let Some(lost) = scratch::lost_input(view, &stage) {
        return rebuild(view, &stage, lost, running);
    }
    let ask = view.unprobed(&stage);
    if !ask.is_empty() {
        return Decision::Probe(ask);
    }
    let done = view.found(&stage, |found| matches!(found, Probe::Done(_)));
    if !done.is_empty() {
        return Decision::SettleDone(done);
    }
    match with_room(view, &stage, &stage, running) {
        Ok((steps, wants_room)) if steps.is_empty() => Decision::Hold { wants_room },
        Ok((steps, wants_room)) => Decision::Start { steps, wants_room },
        Err(decision) => decision,
    }
}

/// Has the scratch that a step of the stage reads made again, from its first lost link on.
fn rebuild(view: &View<'_>, stage: &[usize], lost: usize, running: bool) -> Decision {
    // It is made again once the siblings have ended: what they have read stays as it is until then.
    if running {
        return HOLD;
    }
    let lost = scratch::first_lost_link(view, lost);
    if view.facts.held_back.contains_key(&lost) {
        return wait_held_back(view, &[lost], running);
    }
    if !stages::is_relied_on(view.decl, &view.record.steps, lost) {
        return Decision::ScratchLost(lost);
    }
    // Other scratch that the stage reads may be here still: it waits here for room.
    match with_room(view, &[lost], stage, running) {
        Ok((steps, wants_room)) if steps.is_empty() => Decision::Hold { wants_room },
        Ok(_) => Decision::Rebuild(lost),
        Err(decision) => decision,
    }
}

/// No attempt is consumed: none starts. A sibling that runs holds the lease anyway.
fn wait_held_back(view: &View<'_>, steps: &[usize], running: bool) -> Decision {
    if running {
        return HOLD;
    }
    // A sibling that waits for its own time is not delayed by what delays another one.
    let record = view.record;
    let due = stages::stage_of(view.decl, steps[0])
        .into_iter()
        .filter(|at| !steps.contains(at))
        .filter_map(|at| record.steps[at].waits_until())
        .min()
        .map_or(Duration::MAX, |due| due.after(record.now));
    let first = steps
        .iter()
        .filter_map(|at| Some((*at, view.facts.held_back.get(at)?)))
        .min_by_key(|(_, hold)| hold.left);
    match first {
        Some((at, hold)) => sleep_held_back(hold, &view.step(at).name, due),
        None => HOLD,
    }
}

/// Which of these steps may start now: all light ones, and as many heavy ones as there is room for;
/// and whether the others are waited for here. They are not started before there is room, or their
/// limits and the grace of their objects would run while they wait. An error is what is decided
/// instead: to ask for room, or that another host should run the stage. One that reads files of
/// this host (`readers`) waits here, for as long as it takes: elsewhere the files would have to be
/// made again. Exception: if abandoned code holds all slots, the files are rebuilt elsewhere.
fn with_room(
    view: &View<'_>,
    steps: &[usize],
    readers: &[usize],
    running: bool,
) -> Result<(Vec<usize>, bool), Decision> {
    let is_heavy = |at: usize| view.decl.steps[at].heavy;
    let heavy = steps.iter().filter(|&&at| is_heavy(at)).count();
    if heavy == 0 {
        return Ok((steps.to_vec(), false));
    }
    let Some(room) = view.answers.room else {
        return Err(Decision::AskRoom(heavy));
    };
    if room.steps >= heavy {
        return Ok((steps.to_vec(), false));
    }
    // Where the turn is told to stop, the rows know why, and the commit finds out.
    let waits = view.facts.interrupted.is_none() && !room.stuck;
    if room.steps == 0 && !running && !(waits && scratch::is_read_by(view, readers)) {
        return Err(Decision::HandOver(
            view.host,
            "its next step is heavy, and this process runs as many as it may",
        ));
    }
    let mut left = room.steps;
    let fits = |at: &usize| {
        !is_heavy(*at) || {
            let fits = left > 0;
            left = left.saturating_sub(1);
            fits
        }
    };
    Ok((steps.iter().copied().filter(fits).collect(), waits))
}

fn step_gives_up(view: &View<'_>, at: usize, error: &StepError) -> Decision {
    let decl = &view.decl.steps[at];
    Decision::GiveUp(
        after_failure::failure_of(decl.name, error),
        decl.on_exhausted,
    )
}
