//! Code of steps that is being executed: what must not run twice, not beside itself, not without its start in the rows, not beyond
//! its limit, and not long after its task was cancelled.

use super::link::Link;
use super::world::World;
use counterstep_contracts::{Attempt, TaskId};
use counterstep_kernel::ports::CodeLabel;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// What a process that was paused may take until it knows what it has lost, and until code that does not heed its token is dropped.
const GRACE: Duration = Duration::from_millis(2_500);

/// One execution.
#[derive(Debug, Clone)]
struct Execution {
    task: TaskId,
    step: String,
    part: &'static str,
    attempt: Attempt,
    /// The name of its limit.
    limit: Option<String>,
    link: Arc<Link>,
    began: Duration,
}

impl Execution {
    fn is_of(&self, label: &CodeLabel) -> bool {
        (self.task, &*self.step, self.part) == (label.task, &*label.step, label.part)
    }

    /// Whether its process knows by now what it has lost: it runs, has run for a while, and its timer is that of the world.
    fn must_know(&self, now: Duration) -> bool {
        let runs_since = self.link.runs_since().max(self.began);
        let runs = !self.link.is_closed() && !self.link.world.tasks.is_paused(self.link.bag);
        runs && self.link.is_in_time() && now.saturating_sub(runs_since) > GRACE
    }
}

type Begun = (TaskId, String, &'static str, Attempt);

/// All executions of a run.
#[derive(Debug, Default)]
pub(super) struct Executions(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    last: u64,
    running: BTreeMap<u64, Execution>,
    begun: BTreeSet<Begun>,
    /// The highest number of permits that a limit has had.
    limits: BTreeMap<String, u32>,
    /// From when to when a process has waited for the answers to changes of a task.
    waits: BTreeMap<(String, TaskId), Vec<(Duration, Duration)>>,
}

impl Inner {
    fn of_limit<'a>(&'a self, limit: &'a str) -> impl Iterator<Item = &'a Execution> {
        let all = self.running.values();
        all.filter(move |it| it.limit.as_deref() == Some(limit))
    }
}

/// An execution. Dropped, it has ended, or its code was dropped.
pub(super) struct Executing {
    world: Arc<World>,
    number: u64,
}

impl Executions {
    /// People have set a limit.
    pub(super) fn limit_is(&self, name: &str, most: u32) {
        let mut inner = self.0.lock();
        let limit = inner.limits.entry(name.to_owned()).or_default();
        *limit = most.max(*limit);
    }

    /// A process has waited since then for the answer to a change of these tasks. Until then its turn polls none of its code, which has
    /// no threads of its own here.
    pub(super) fn answered(
        &self,
        process: &str,
        tasks: impl Iterator<Item = TaskId>,
        asked: Duration,
        now: Duration,
    ) {
        let mut inner = self.0.lock();
        for task in tasks {
            let waits = inner.waits.entry((process.to_owned(), task)).or_default();
            waits.push((asked, now));
        }
    }

    /// How many go on under a limit.
    pub(super) fn under(&self, limit: &str) -> usize {
        self.0.lock().of_limit(limit).count()
    }

    pub(super) fn runs(&self, task: TaskId) -> bool {
        self.0.lock().running.values().any(|it| it.task == task)
    }

    /// Code of a step begins.
    pub(super) fn begin(world: &Arc<World>, label: &CodeLabel, link: &Arc<Link>) -> Executing {
        let (watch, now) = (&world.watch, world.now());
        let CodeLabel {
            task,
            step,
            part,
            attempt,
        } = label;
        let limit = world.limit_of(*task, step).filter(|_| *part == "run");
        if *part != "probe" && !watch.has_started(*task, step, part, *attempt) {
            watch.fails(format!(
                "8: {part} of step {step} of task {task}, attempt {attempt}, is executed, and no change has started it"
            ));
        }
        let execution = Execution {
            task: *task,
            step: step.clone(),
            part,
            attempt: *attempt,
            limit: limit.as_ref().map(|limit| limit.name.to_owned()),
            link: link.clone(),
            began: now,
        };
        let mut inner = world.executions.0.lock();
        let key = (*task, step.clone(), *part, *attempt);
        if *part != "probe" && !inner.begun.insert(key) {
            watch.fails(format!(
                "8: {part} of step {step} of task {task}, attempt {attempt}, is executed a second time, by {}",
                link.process
            ));
        }
        inner.last += 1;
        let number = inner.last;
        inner.running.insert(number, execution);
        let mut over = None;
        if let Some((limit, at_once)) = limit.and_then(|it| Some((it.name, it.at_once?))) {
            let most = inner.limits.get(limit).copied();
            let most = most.unwrap_or_default().max(at_once) as usize;
            match inner.of_limit(limit).count() {
                all if all > most => over = Some((limit, most)),
                all if all == most => watch.reached("limit used up"),
                _ => {}
            }
        }
        let older = inner.running.iter().filter(|(_, it)| it.is_of(label));
        let older = older.filter(|(older, _)| **older != number);
        let older: Vec<u64> = older.map(|(number, _)| *number).collect();
        drop(inner);
        if let Some((limit, most)) = over {
            watch.reached("more than the limit for a moment");
            world.is_kept_soon(limit, most);
        }
        for older in older {
            watch.reached("two attempts at once");
            world.ends_soon(older, number);
        }
        Executing {
            world: world.clone(),
            number,
        }
    }

    /// More executions than its permits go on under a limit since then, and all of their processes must know.
    pub(super) fn are_too_many(
        &self,
        limit: &str,
        most: usize,
        since: Duration,
        now: Duration,
    ) -> Option<String> {
        let inner = self.0.lock();
        let go_on = |it: &&Execution| it.began <= since && it.must_know(now);
        let all = inner.of_limit(limit).filter(go_on).count();
        (all > most).then(|| {
            format!(
                "limit: {all} executions go on under the limit `{limit}`, which has {most} permits"
            )
        })
    }

    /// 8: an attempt runs on although another process has the task, and it must know.
    pub(super) fn both_run(&self, older: u64, newer: u64, now: Duration) -> Option<String> {
        let inner = self.0.lock();
        let (older, newer) = (inner.running.get(&older)?, inner.running.get(&newer)?);
        (older.must_know(now) && newer.must_know(now)).then(|| {
            format!(
                "8: attempts {} and {} of {} of step {} of task {} are executed side by side, by {} and {}",
                older.attempt, newer.attempt, newer.part, newer.step, newer.task, older.link.process, newer.link.process
            )
        })
    }
}

impl Drop for Executing {
    fn drop(&mut self) {
        let world = &self.world;
        let mut inner = world.executions.0.lock();
        let Some(ended) = inner.running.remove(&self.number) else {
            return;
        };
        let waits = inner.waits.get(&(ended.link.process.clone(), ended.task));
        let waits = waits.cloned().unwrap_or_default();
        drop(inner);
        let Some(cancelled) = world.watch.cancelled_at(ended.task) else {
            return;
        };
        let now = world.now();
        let since = cancelled.max(ended.began).max(ended.link.runs_since());
        let waited = |(asked, answered): (Duration, Duration)| {
            answered.min(now).saturating_sub(asked.max(since))
        };
        let waited: Duration = waits.into_iter().map(waited).sum();
        // A heartbeat in each third of the lease, which is over where none gets through.
        let heard = world.options.lease * 2 + GRACE * 2;
        let is_late = ended.began < cancelled && now.saturating_sub(since + waited) > heard;
        if ended.part == "run" && is_late && !ended.link.is_closed() {
            world.watch.fails(format!(
                "15: step {} of task {} went on for {:?} after a cancel of the task was accepted",
                ended.step,
                ended.task,
                now - cancelled
            ));
        }
    }
}
