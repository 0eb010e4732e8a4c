//! Open effects: what steps of tasks at rest have done outside, and nothing has taken back. Worked out from the declaration and the
//! rows of each task when it is asked for; a task without any costs nothing. Must not change a task.

use super::amounts::{DeclaredAmounts, listed};
use super::{known_records, undo_plan};
use crate::dead_letters::Selection;
use crate::engine::Engine;
use crate::ports::{StoreError, TaskLine};
use crate::record::{StepRow, TaskRecord};
use crate::task::TaskType;
use crate::times::rfc3339;
use counterstep_contracts::open_effects::{
    OpenEffect, OpenEffectKind, OpenEffectSum, OpenEffectSums, OpenEffects,
};
use counterstep_contracts::operator::NotUndoneKind;
use counterstep_contracts::{
    SettledAs, StepDecl, StepNo, StepStatus, TaskId, TaskStatus, Tenant, UndoDecl,
};
use counterstep_steps::task::AmountSums;
use futures::{StreamExt, stream};
use std::collections::BTreeMap;
use std::pin::pin;

/// The states in which a task may have open effects.
pub const STATES: [TaskStatus; 5] = [
    TaskStatus::DeadLettered,
    TaskStatus::CompensationFailed,
    TaskStatus::Failed,
    TaskStatus::Cancelled,
    TaskStatus::Resolved,
];

/// Maximum number of tasks that one walk looks at: of those that have ended, most have none.
const MOST_LINES: u64 = 2_000;

/// Maximum number of tasks whose rows one walk reads.
const MOST_RECORDS: usize = 1_000;

/// Tasks whose rows are read at a time, with all that was handed in.
const AT_ONCE: usize = 25;

/// Reads at a time: the database reads one while another one is decoded.
const READS: usize = 2;

/// What steps of a task have done outside and nothing has taken back, the last step first. None of a task that may still go on by
/// itself, and of one that has completed or was settled as done or as undone. What the engine stores and deletes itself is none. Tasks
/// that a step has submitted are one effect of it, since those of them that have completed have none of their own.
#[must_use]
pub fn open_effects(task_type: &TaskType, record: &TaskRecord) -> Vec<OpenEffect> {
    let settled = record.task.settled.as_ref().map(|it| it.settled);
    // One that was submitted by another task and has residue: what it did stands, and no undo of the other one reaches it.
    let is_done = match settled {
        Some(SettledAs::Done) => !record.task.residue,
        Some(SettledAs::Undone) => true,
        Some(SettledAs::Skipped | SettledAs::NotNeeded | SettledAs::Redriven) | None => false,
    };
    if !STATES.contains(&record.task.status) || is_done {
        return Vec::new();
    }
    let plan = undo_plan(task_type, record);
    let at = |no: StepNo| record.steps.iter().position(|row| row.no == no);
    let undone = plan.stages.iter().flat_map(|stage| &stage.steps);
    let undone = undone.filter_map(|step| {
        let at = at(step.no)?;
        // Where its probe gave up, or it has no output, it may never have been done.
        let row = &record.steps[at];
        let kind = match (step.gave_up, row.probe.is_none() && row.output.is_some()) {
            (true, true) => OpenEffectKind::UndoFailed,
            (true, false) => OpenEffectKind::InDoubt,
            (false, _) => OpenEffectKind::Parked,
        };
        Some((at, kind, String::new()))
    });
    let stays = plan.not_undone.into_iter().filter_map(|step| {
        let kind = match step.kind {
            NotUndoneKind::Waived => OpenEffectKind::Waived,
            NotUndoneKind::Ended => OpenEffectKind::Left,
            // It was left as it is, or another one of this task was.
            NotUndoneKind::Settled if record.task.residue => OpenEffectKind::InDoubt,
            NotUndoneKind::Pure
            | NotUndoneKind::Undone
            | NotUndoneKind::Settled
            | NotUndoneKind::Kept => return None,
        };
        let at = record.steps.iter().position(|row| row.name == step.step)?;
        Some((at, kind, step.reason))
    });
    let mut found: Vec<_> = undone.chain(stays).collect();
    found.sort_by_key(|(at, ..)| std::cmp::Reverse(record.steps[*at].started_seq));
    let effects = found.into_iter().filter_map(|(at, kind, reason)| {
        let decl = task_type.decl.steps.get(at)?;
        let row = &record.steps[at];
        let is_own = match decl.undo {
            UndoDecl::Function { .. } | UndoDecl::Waived { .. } => true,
            UndoDecl::BuiltIn => decl.has_children() && row.children.is_some(),
            UndoDecl::Pure => false,
        };
        is_own.then(|| effect(row, kind, reason))
    });
    effects.collect()
}

fn effect(row: &StepRow, kind: OpenEffectKind, reason: String) -> OpenEffect {
    // Of a step that did not complete it is not known what it did.
    let is_sure = row.status == StepStatus::Completed;
    let kind = match kind {
        OpenEffectKind::UndoFailed => kind,
        _ if is_sure => kind,
        _ => OpenEffectKind::InDoubt,
    };
    let failed = row.error.as_ref();
    let said = || failed.map(|it| it.message.clone()).unwrap_or_default();
    let reason = match kind {
        OpenEffectKind::UndoFailed => format!("its undo gave up: {}", said()),
        OpenEffectKind::Parked => "its task is parked".to_owned(),
        OpenEffectKind::InDoubt => match (row.status, failed) {
            (StepStatus::Resolved, _) => reason,
            (StepStatus::CompensationFailed, _) => {
                format!(
                    "it may not have been done, and its undo gave up: {}",
                    said()
                )
            }
            (_, Some(error)) => format!(
                "its last attempt failed, and may have done something: {}",
                error.message
            ),
            (_, None) => "its last attempt did not tell how it ended".to_owned(),
        },
        OpenEffectKind::Left | OpenEffectKind::Waived => reason,
    };
    let origin = failed.and_then(|it| it.origin.as_ref());
    OpenEffect {
        no: row.no,
        step: row.name.clone(),
        kind,
        reason,
        service: origin.and_then(|it| it.service.clone()),
        amounts: Vec::new(),
    }
}

/// A walk over the tasks of a selection, the newest first.
struct Walk<'a> {
    engine: &'a Engine,
    selection: &'a Selection,
    /// Of the tasks of all tenants, not of the one of the selection.
    all_tenants: bool,
    declared: DeclaredAmounts,
    /// Tasks whose type this program does not know, or whose rows it cannot read.
    unknown: u64,
}

/// A task on the way.
struct Found {
    record: TaskRecord,
    effects: Vec<(OpenEffect, AmountSums)>,
}

impl Walk<'_> {
    /// Gives the tasks with open effects behind `before`, until it is told to stop (`false`) or has looked at as many as it may.
    /// Returns the task behind which it goes on; `None`: it has looked at all.
    async fn each(
        &mut self,
        mut before: Option<TaskId>,
        mut found: impl FnMut(Found) -> bool,
    ) -> Result<Option<TaskId>, StoreError> {
        let (mut lines, mut records) = (0, 0);
        loop {
            let (selection, store) = (self.selection, &self.engine.ports.store);
            let page = match self.all_tenants {
                true => selection.page_of_all_tenants(store, before).await?,
                false => selection.page(store, before).await?,
            };
            lines += page.looked_at;
            let candidates = page.lines.iter().filter(|it| self.may_have_some(it));
            let candidates: Vec<_> = candidates.map(|it| it.task).collect();
            let engine = self.engine;
            let parts: Vec<_> = candidates.chunks(AT_ONCE).map(<[_]>::to_vec).collect();
            let reads = parts.into_iter().map(|some| read(engine, some));
            let mut reads = pin!(stream::iter(reads).buffered(READS));
            while let Some((some, read)) = reads.next().await.transpose()? {
                for one in self.found(read) {
                    let task = one.record.task.id;
                    if !found(one) {
                        return Ok(Some(task));
                    }
                }
                records += some.len();
                if let Some(last) = some.last().filter(|_| records >= MOST_RECORDS) {
                    return Ok(Some(*last));
                }
            }
            before = page.next;
            if before.is_none() || lines >= MOST_LINES {
                return Ok(before);
            }
        }
    }

    /// Whether a task may have open effects, as far as its line tells: one that has ended without residue has those that its
    /// declaration waives, and most have none.
    fn may_have_some(&mut self, line: &TaskLine) -> bool {
        if line.residue || line.status.is_parked() {
            return true;
        }
        let Some(known) = self.engine.registry.get(&line.task_type, line.version) else {
            self.unknown += 1;
            return false;
        };
        let is_waived = |step: &StepDecl| matches!(step.undo, UndoDecl::Waived { .. });
        known.decl.steps.iter().any(is_waived)
    }

    /// The newest first.
    fn found(&mut self, (mut known, unknown): Read) -> Vec<Found> {
        self.unknown += unknown;
        known.sort_by_key(|(_, record)| std::cmp::Reverse(record.task.id));
        let mut all = Vec::new();
        for (task_type, record) in known {
            let of = |effect: OpenEffect| {
                let mut sums = AmountSums::default();
                let at = record.steps.iter().position(|row| row.no == effect.no);
                if let Some(at) = at {
                    self.declared
                        .add_output_or_request(&task_type, &record, at, &mut sums);
                }
                (effect, sums)
            };
            let effects = open_effects(&task_type, &record).into_iter().map(of);
            let effects: Vec<_> = effects.collect();
            if !effects.is_empty() {
                all.push(Found { record, effects });
            }
        }
        all
    }
}

type Read = (Vec<(TaskType, TaskRecord)>, u64);

async fn read(engine: &Engine, tasks: Vec<TaskId>) -> Result<(Vec<TaskId>, Read), StoreError> {
    let found = known_records(engine, &tasks).await?;
    Ok((tasks, found))
}

fn walk<'a>(engine: &'a Engine, selection: &'a Selection) -> Walk<'a> {
    Walk {
        engine,
        selection,
        all_tenants: false,
        declared: DeclaredAmounts::default(),
        unknown: 0,
    }
}

/// Whether an effect is asked for; no kinds: all are.
fn is_asked(kinds: &[OpenEffectKind], effect: &OpenEffect) -> bool {
    kinds.is_empty() || kinds.contains(&effect.kind)
}

/// Those of these states in which a task may have effects of these kinds.
fn states_of(kinds: &[OpenEffectKind], states: &[TaskStatus]) -> Vec<TaskStatus> {
    let all = |fit: fn(&OpenEffectKind) -> bool| !kinds.is_empty() && kinds.iter().all(fit);
    let parked_alone = all(|it| matches!(it, OpenEffectKind::Parked | OpenEffectKind::UndoFailed));
    let ended_alone = all(|it| *it == OpenEffectKind::Left);
    let fits = |status: &&TaskStatus| match status.is_parked() {
        true => !ended_alone,
        false => !parked_alone,
    };
    states.iter().filter(fits).copied().collect()
}

/// The tasks of a selection with open effects of these kinds, the newest first: `most` of them, and the task behind which the next
/// page begins. A page may have fewer, or none, before the last.
///
/// # Errors
/// [`StoreError`].
pub async fn list_open_effects(
    engine: &Engine,
    selection: &Selection,
    kinds: &[OpenEffectKind],
    before: Option<TaskId>,
    most: usize,
) -> Result<(Vec<OpenEffects>, Option<TaskId>), StoreError> {
    let mut all = Vec::new();
    let selection = &Selection {
        statuses: states_of(kinds, &selection.statuses),
        ..selection.clone()
    };
    let add = |Found { record, effects }: Found| {
        let task = &record.task;
        let effects = effects.into_iter().filter(|(it, _)| is_asked(kinds, it));
        let effects: Vec<_> = effects
            .map(|(effect, sums)| OpenEffect {
                amounts: listed(&sums),
                ..effect
            })
            .collect();
        if !effects.is_empty() {
            all.push(OpenEffects {
                task_id: task.id,
                task_type: task.task_type.clone(),
                status: task.status,
                since: rfc3339(task.updated_at),
                effects,
            });
        }
        all.len() < most
    };
    let next = walk(engine, selection).each(before, add).await?;
    Ok((all, next))
}

/// Open effects of the tasks of a selection, counted and summed by type, step, kind and service.
///
/// # Errors
/// [`StoreError`].
pub async fn sum_open_effects(
    engine: &Engine,
    selection: &Selection,
) -> Result<OpenEffectSums, StoreError> {
    sum(engine, selection, false).await
}

/// The same of the parked tasks of all tenants, for metrics: an index has those. Those that have ended are looked at by tenant.
///
/// # Errors
/// [`StoreError`].
pub async fn sum_parked_open_effects(engine: &Engine) -> Result<OpenEffectSums, StoreError> {
    let parked = STATES.into_iter().filter(|it| it.is_parked());
    let of_all = Selection::of(Tenant::default(), parked.collect());
    sum(engine, &of_all, true).await
}

async fn sum(
    engine: &Engine,
    selection: &Selection,
    all_tenants: bool,
) -> Result<OpenEffectSums, StoreError> {
    let mut sums: BTreeMap<_, (OpenEffectSum, AmountSums)> = BTreeMap::new();
    let (mut tasks, mut unknown, mut complete) = (0, 0, true);
    let mut add = |Found { record, effects }: Found| {
        let task = &record.task;
        tasks += 1;
        for (effect, amounts) in effects {
            let since = rfc3339(task.updated_at);
            let key = (
                effect.kind,
                task.task_type.clone(),
                effect.no,
                effect.step.clone(),
                effect.service.clone(),
            );
            let (sum, of_all) = sums.entry(key).or_insert_with(|| {
                let sum = OpenEffectSum {
                    task_type: task.task_type.clone(),
                    step: effect.step,
                    kind: effect.kind,
                    service: effect.service,
                    effects: 0,
                    oldest: since.clone(),
                    amounts: Vec::new(),
                    example: task.id,
                };
                (sum, AmountSums::default())
            });
            sum.effects += 1;
            if since < sum.oldest {
                sum.oldest = since;
            }
            of_all.extend(&amounts);
        }
        true
    };
    // However many have ended since, those that people can still decide about are counted.
    let (parked, ended): (Vec<_>, Vec<_>) =
        (selection.statuses.iter()).partition(|it| it.is_parked());
    for statuses in [parked, ended] {
        let of_states = Selection {
            statuses,
            ..selection.clone()
        };
        // A selection without states is of all of them.
        if of_states.statuses.is_empty() {
            continue;
        }
        let mut walk = Walk {
            all_tenants,
            ..walk(engine, &of_states)
        };
        complete &= walk.each(None, &mut add).await?.is_none();
        unknown += walk.unknown;
    }
    let of = |(sum, amounts): (OpenEffectSum, AmountSums)| OpenEffectSum {
        amounts: listed(&amounts),
        ..sum
    };
    let mut sums: Vec<_> = sums.into_values().map(of).collect();
    sums.sort_by_key(|it| (it.kind, std::cmp::Reverse(it.effects)));
    Ok(OpenEffectSums {
        sums,
        tasks,
        unknown,
        complete,
    })
}
