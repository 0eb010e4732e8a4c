//! The people of a run. Some answer what tasks wait for; operators settle what is parked, pause queues, disable types, set limits, and
//! take all of that back in the end.

use super::choice::Choice;
use super::clients::{Told, send};
use super::process::Processes;
use super::world::World;
use crate::answers::Answer;
use counterstep_contracts::bulk::{BulkAction, BulkStatus};
use counterstep_contracts::pace::{Pace, PausedFor};
use counterstep_contracts::{QueueName, SettledAs, TaskId, TaskStatus, Tenant};
use counterstep_kernel::Engine;
use counterstep_kernel::admission::disable::{TypeDecision, disable_type, enable_type};
use counterstep_kernel::admission::limits::{NewLimit, reset_limit, set_limit};
use counterstep_kernel::admission::paused_queues::{pause_queue, resume_queue};
use counterstep_kernel::bulk::{self, BulkSpec};
use counterstep_kernel::client::{self, SignalRefusal};
use counterstep_kernel::dead_letters::Selection;
use counterstep_kernel::operator::{self, Resolution, Retrial};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// In audits.
const ACTOR: &str = "operator";

/// Sends what a request's client has planned to answer.
pub(super) async fn answer(
    world: Arc<World>,
    processes: Processes,
    told: Arc<Mutex<Told>>,
    task: TaskId,
    planned: Vec<(String, Answer)>,
) {
    let mut choice = Choice::of(world.seed, &format!("answers {task}"));
    for (step, answer) in planned {
        let (body, latest) = match answer {
            Answer::InTime(body) => (body, 8_000),
            Answer::Late(body) => (body, 60_000),
            Answer::Never => continue,
        };
        sleep(Duration::from_millis(choice.below(latest))).await;
        // As often as a person would.
        for _ in 0..12 {
            let (name, sent) = (step.clone(), body.clone());
            let signal = |engine: Engine| -> BoxFuture<'static, _> {
                Box::pin(async move { client::signal(&engine, task, &name, sent, "client").await })
            };
            match send(&world, &processes, &mut choice, signal).await {
                Some(Ok(_)) => {
                    world.watch.reached("signal accepted");
                    world.note(("signal", task.0, &step), || {
                        format!("the signal {step} of {task} is accepted")
                    });
                    let of = (task, step.clone());
                    told.lock().signals.insert(of, body.clone());
                    break;
                }
                Some(Err(SignalRefusal::Change(_) | SignalRefusal::UnknownType)) | None => {
                    sleep(Duration::from_millis(choice.within(200, 3_000))).await;
                }
                Some(Err(SignalRefusal::TooLate { .. })) => {
                    world.watch.reached("signal too late");
                    break;
                }
                Some(Err(error)) => {
                    let what = format!("15: the signal {step} of {task} was refused: {error}");
                    world.watch.fails(what);
                    break;
                }
            }
        }
    }
}

/// What operators can work on.
#[derive(Debug, Clone, Default)]
pub(super) struct Operable {
    queues: Vec<QueueName>,
    types: Vec<&'static str>,
    limits: Vec<&'static str>,
}

impl Operable {
    pub(super) fn of(world: &World) -> Self {
        let decls: Vec<_> = world.registry.iter().map(|it| it.decl).collect();
        let names: BTreeSet<_> = decls.iter().map(|decl| decl.name).collect();
        let steps = decls.iter().flat_map(|decl| decl.steps);
        let limits: BTreeSet<_> = steps.filter_map(|it| Some(it.limit?.name)).collect();
        let hosts = [
            counterstep_contracts::Host::Worker,
            counterstep_contracts::Host::Api,
        ];
        let queues = hosts.iter().flat_map(|host| world.registry.queues(*host));
        Self {
            queues: queues.collect(),
            types: names.into_iter().collect(),
            limits: limits.into_iter().collect(),
        }
    }
}

/// Nothing that was sent before all was healed is written later than this.
const LATE: Duration = Duration::from_secs(60);

/// What an operator has changed, and takes back.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    Paused(QueueName),
    Disabled(&'static str),
    Limited(&'static str),
}

impl Change {
    /// Whether it is so now. `None`: no answer.
    async fn set(&self, by: &mut Operator) -> Option<bool> {
        let most = by.choice.within(1, 4) as u32;
        if let Self::Limited(name) = self {
            by.world.executions.limit_is(name, most);
        }
        let of = self.clone();
        by.done(move |engine| {
            Box::pin(async move {
                match of {
                    Self::Paused(queue) => {
                        pause_queue(&engine, &queue, ACTOR, "a look").await.is_ok()
                    }
                    Self::Disabled(name) => disable_type(&engine, name, decision()).await.is_ok(),
                    Self::Limited(name) => {
                        let new = NewLimit {
                            at_once: Some(most),
                            rate: None,
                            actor: ACTOR,
                            note: "a look",
                        };
                        set_limit(&engine, name, new).await.is_ok()
                    }
                }
            })
        })
        .await
    }

    async fn take_back(&self, by: &mut Operator) -> Option<bool> {
        let of = self.clone();
        by.done(move |engine| {
            Box::pin(async move {
                match of {
                    Self::Paused(queue) => {
                        resume_queue(&engine, &queue, ACTOR, "done").await.is_ok()
                    }
                    Self::Disabled(name) => enable_type(&engine, name, decision()).await.is_ok(),
                    Self::Limited(name) => reset_limit(&engine, name, ACTOR, "done").await.is_ok(),
                }
            })
        })
        .await
    }

    fn point(&self) -> &'static str {
        match self {
            Self::Paused(_) => "queue paused",
            Self::Disabled(_) => "type disabled",
            Self::Limited(_) => "limit set",
        }
    }
}

const fn point_of(why: PausedFor) -> &'static str {
    match why {
        PausedFor::Sample => "bulk paused after its sample",
        PausedFor::Failures => "bulk paused by failures",
        PausedFor::Person => "bulk paused by a person",
    }
}

const fn decision() -> TypeDecision<'static> {
    TypeDecision {
        actor: ACTOR,
        name: None,
        note: "a look",
    }
}

/// One of them.
pub(super) struct Operator {
    world: Arc<World>,
    processes: Processes,
    choice: Choice,
    operable: Operable,
    changed: BTreeSet<Change>,
    /// Without an answer: a process that was paused may write it behind its taking back, which saw nothing of it.
    unanswered: BTreeSet<Change>,
}

impl Operator {
    pub(super) fn new(world: &Arc<World>, processes: &Processes, number: u32) -> Self {
        Self {
            world: world.clone(),
            processes: processes.clone(),
            choice: Choice::of(world.seed, &format!("operator {number}")),
            operable: Operable::of(world),
            changed: BTreeSet::new(),
            unanswered: BTreeSet::new(),
        }
    }

    /// Operates until all is healed, and takes back what it has changed.
    pub(super) async fn operates(mut self) {
        loop {
            sleep(Duration::from_millis(self.choice.within(500, 6_000))).await;
            if self.world.is_healed() {
                break;
            }
            match self.choice.below(10) {
                0 => {
                    self.changes(self.operable.queues.clone(), Change::Paused)
                        .await
                }
                1 => {
                    self.changes(self.operable.types.clone(), Change::Disabled)
                        .await
                }
                2 | 3 => {
                    self.changes(self.operable.limits.clone(), Change::Limited)
                        .await
                }
                4 => self.takes_back().await,
                5 => {
                    self.redrives_all().await;
                    self.looks_at_many().await;
                }
                6 => self.looks_at_many().await,
                _ => self.settles_one().await,
            }
        }
        self.takes_all_back().await;
        if !self.unanswered.is_empty() {
            sleep(LATE).await;
            self.changed.append(&mut self.unanswered);
            self.takes_all_back().await;
        }
    }

    async fn takes_all_back(&mut self) {
        while !self.changed.is_empty() {
            self.takes_back().await;
            sleep(Duration::from_millis(500)).await;
        }
    }

    async fn changes<T: Clone>(&mut self, of: Vec<T>, change: impl FnOnce(T) -> Change) {
        if of.is_empty() {
            return;
        }
        let change = change(self.choice.one_of(&of).clone());
        // It may be so without an answer.
        self.changed.insert(change.clone());
        match change.set(self).await {
            Some(true) => {
                self.world.note(change.point(), || format!("{change:?}"));
                self.world.watch.reached(change.point());
            }
            Some(false) => {}
            None => drop(self.unanswered.insert(change)),
        }
    }

    async fn takes_back(&mut self) {
        let Some(change) = self.changed.first().cloned() else {
            return;
        };
        if change.take_back(self).await == Some(true) {
            self.world.note(("taken back", change.point()), || {
                format!("taken back: {change:?}")
            });
            self.changed.remove(&change);
        }
    }

    /// How fast many go on: half of the time as fast as they can.
    fn paces(&mut self) -> Option<Pace> {
        let mut some = |chance, least, most| {
            let is_so = self.choice.chance(chance);
            is_so.then(|| self.choice.within(least, most) as u32)
        };
        let pace = Pace {
            sample: some(400, 1, 3),
            per_minute: some(200, 20, 120),
            max_failures: some(400, 1, 3),
        };
        self.choice.chance(500).then_some(pace)
    }

    /// Looks at the operations on many tasks: pauses some, lets some go on that have paused, and stops some.
    async fn looks_at_many(&mut self) {
        let Ok(all) = bulk::list(&self.world.store, &Tenant::default()).await else {
            return;
        };
        for it in all {
            let sample = it.pace.and_then(|pace| pace.sample);
            let decided = it.done + it.failed;
            if it.paused_for == Some(PausedFor::Sample)
                && sample.is_none_or(|sample| decided > u64::from(sample))
            {
                let what = format!(
                    "2: operation {} has paused after its sample of {sample:?}, and has decided on {decided}",
                    it.id
                );
                self.world.watch.fails(what);
            }
            if let Some(why) = it.paused_for {
                self.world.watch.reached(point_of(why));
            }
            let change = match (it.status, self.choice.below(10)) {
                (BulkStatus::Running, 0) => "pause",
                (BulkStatus::Paused, 0) => "stop",
                (BulkStatus::Paused, 1..=5) => "resume",
                _ => continue,
            };
            let handle = move |engine: Engine| -> BoxFuture<'static, bool> {
                Box::pin(async move {
                    let (store, tenant) = (&engine.ports.store, Tenant::default());
                    let changed = match change {
                        "pause" => bulk::pause(store, &tenant, &it.id, ACTOR).await,
                        "stop" => bulk::stop(store, &tenant, &it.id, ACTOR).await,
                        _ => bulk::resume(store, &tenant, &it.id, ACTOR).await,
                    };
                    changed.is_ok()
                })
            };
            if self.done(handle).await == Some(true) && change == "resume" {
                self.world.watch.reached("bulk resumed");
            }
        }
    }

    /// All that is parked goes on, as one operation.
    async fn redrives_all(&mut self) {
        let spec = BulkSpec {
            action: BulkAction::Redrive,
            settled: None,
            patch: None,
            from: None,
            selection: Selection::of(
                Tenant::default(),
                vec![TaskStatus::DeadLettered, TaskStatus::CompensationFailed],
            ),
            pace: self.paces(),
            note: "all at once".to_owned(),
            actor: ACTOR.to_owned(),
        };
        let start = |engine: Engine| -> BoxFuture<'static, bool> {
            Box::pin(async move { bulk::start(&engine, spec).await.is_ok() })
        };
        if self.done(start).await == Some(true) {
            self.world.watch.reached("bulk started");
        }
    }

    async fn settles_one(&mut self) {
        let tasks = self.world.watch.tasks();
        let parked = tasks.iter().filter(|(_, task)| task.status.is_parked());
        let parked: Vec<TaskId> = parked.map(|(task, _)| *task).collect();
        if parked.is_empty() {
            return;
        }
        let task = *self.choice.one_of(&parked);
        let resolves = self.choice.chance(300);
        let decide = move |engine: Engine| -> BoxFuture<'static, bool> {
            Box::pin(async move {
                let decided = match resolves {
                    true => {
                        let resolution = Resolution {
                            step: None,
                            settled: SettledAs::NotNeeded,
                            output: None,
                            task: None,
                            actor: ACTOR.to_owned(),
                            note: "not needed".to_owned(),
                            bulk: None,
                        };
                        operator::resolve(&engine, task, resolution).await
                    }
                    false => {
                        let retrial = Retrial {
                            direction: None,
                            edit: None,
                            actor: ACTOR.to_owned(),
                            note: "once more".to_owned(),
                            bulk: None,
                        };
                        operator::retry(&engine, task, retrial).await
                    }
                };
                decided.is_ok()
            })
        };
        if self.done(decide).await == Some(true) {
            self.world.watch.reached(match resolves {
                true => "resolved by an operator",
                false => "retried by an operator",
            });
        }
    }

    async fn done(
        &mut self,
        handle: impl FnOnce(Engine) -> BoxFuture<'static, bool>,
    ) -> Option<bool> {
        send(&self.world, &self.processes, &mut self.choice, handle).await
    }
}
