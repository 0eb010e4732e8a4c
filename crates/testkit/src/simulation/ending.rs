//! What must hold in the end of a run, when nothing goes wrong any more and all tasks are at rest.

use super::clients::Told;
use super::ledger::{Booking, Ledger};
use super::process::{Processes, Shared};
use super::world::World;
use crate::invariants::broken_of_all;
use counterstep_contracts::open_effects::{OpenEffect, OpenEffectKind};
use counterstep_contracts::{TaskId, TaskStatus};
use counterstep_kernel::Engine;
use counterstep_kernel::admission::limits::limits;
use counterstep_kernel::operator;
use counterstep_kernel::ports::{DocumentKind, DocumentQuery};
use counterstep_kernel::record::TaskRecord;
use counterstep_reconciler::audit::{Damage, Finding, Scope};
use counterstep_reconciler::fsck::fsck;
use counterstep_steps::{Registry, State};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) async fn check_all(
    world: &Arc<World>,
    shared: &Arc<Shared>,
    processes: &Processes,
    told: &Arc<Mutex<Told>>,
    ledgers: &BTreeMap<&'static str, Ledger>,
    finally: &[Box<Finally>],
) {
    let mut records: Vec<TaskRecord> = Vec::new();
    for task in world.watch.tasks().into_keys() {
        match world.store.load(task).await {
            Ok(Some(record)) => records.push(record),
            other => world
                .watch
                .fails(format!("6: task {task} cannot be read: {other:?}")),
        }
    }
    let Some(engine) = engine_of(world, processes) else {
        return;
    };
    for broken in broken_of_all(&engine, &records).await {
        world.watch.fails(broken);
    }
    let scope = Scope::default();
    let objects = engine.ports.objects.clone();
    let (store, registry) = (&world.store, &world.registry);
    let mut found = |finding: Finding| {
        world.watch.fails(match finding.damage {
            Damage::ObjectMissing => format!("11: {finding}"),
            _ => format!("6: {finding}"),
        });
    };
    let checked = fsck(store, registry, Some(&*objects), &scope, &mut found).await;
    if let Err(error) = checked {
        world
            .watch
            .fails(format!("6: the check does not come to its end: {error}"));
    }
    answers_hold(world, &told.lock(), &records);
    nothing_is_held(world, shared, processes, &engine, &records).await;
    objects_are_those_of_tasks(world, shared, &records);
    if shared.broker.left() > 0 {
        let left = shared.broker.left();
        world
            .watch
            .fails(format!("2: {left} messages are left in the queue"));
    }
    let ended = Ended {
        records,
        ledgers: ledgers.clone(),
        registry: world.registry.clone(),
    };
    for finally in finally {
        if let Err(what) = finally(&ended) {
            world.watch.fails(what);
        }
    }
}

/// The engine of a process, whose looks no fault meets.
fn engine_of(world: &World, processes: &Processes) -> Option<Engine> {
    let processes = processes.lock();
    let mut engine = processes[0].running.as_ref()?.engine.clone();
    engine.ports.store = world.store.clone();
    Some(engine)
}

/// Of tasks that do not come to rest: permits that no execution uses are what they wait for.
pub(super) async fn permits_are_used(world: &World, processes: &Processes) {
    let Some(engine) = engine_of(world, processes) else {
        return;
    };
    for limit in limits(&engine).await.unwrap_or_default() {
        let (name, goes_on) = (&limit.name, world.executions.under(&limit.name));
        let holders = limit.uses.iter().flat_map(|of| &of.holders);
        let held: u32 = holders.map(|(_, held)| held).sum();
        if held as usize > goes_on {
            world.watch.fails(format!(
                "limit: {held} permits of the limit `{name}` are held, and {goes_on} executions go on under it"
            ));
        }
    }
}

/// 12 and 15: what clients were told is so.
fn answers_hold(world: &World, told: &Told, records: &[TaskRecord]) {
    let there: BTreeMap<TaskId, TaskStatus> = records
        .iter()
        .map(|record| (record.task.id, record.task.status))
        .collect();
    for task in &told.accepted {
        if !there.contains_key(task) {
            world
                .watch
                .fails(format!("12: task {task} was accepted, and is not there"));
        }
    }
    for record in records.iter().filter(|record| record.task.parent.is_none()) {
        if !told.accepted.contains(&record.task.id) {
            let task = record.task.id;
            world.watch.fails(format!(
                "12: task {task} is there, and no client was told of it"
            ));
        }
    }
    for ((task, step), body) in &told.signals {
        let record = records.iter().find(|it| it.task.id == *task);
        let row = record.and_then(|it| it.steps.iter().find(|row| row.name == *step));
        let output = row.and_then(|row| row.output.as_ref());
        let is_needed = there.get(task) == Some(&TaskStatus::Completed);
        if output.map_or(is_needed, |output| output != body) {
            world.watch.fails(format!(
                "15: the signal {step} of task {task} was accepted with {body}, and the step has {output:?}"
            ));
        }
    }
    for task in &told.cancelled {
        if there.get(task) == Some(&TaskStatus::Completed) {
            world.watch.fails(format!(
                "15: a cancel of task {task} was accepted, and it has completed"
            ));
        }
    }
}

/// 4: behind a task that was undone no object is left, or a sweep will find it. 11: no object is of no task.
fn objects_are_those_of_tasks(world: &World, shared: &Shared, records: &[TaskRecord]) {
    let of = |record: &TaskRecord| {
        counterstep_steps::keys::task_prefix(&record.task.tenant, record.task.id)
    };
    let names = shared.bucket.names();
    for record in records {
        let (task, status) = (record.task.id, record.task.status);
        let prefix = of(record);
        let objects = names
            .iter()
            .filter(|(_, key)| key.starts_with(&prefix))
            .count();
        let is_undone = matches!(status, TaskStatus::Failed | TaskStatus::Cancelled);
        if is_undone && !record.task.residue && objects > 0 && record.task.sweep_at.is_none() {
            world.watch.fails(format!(
                "4: task {task} is {status}, and {objects} objects of it are left"
            ));
        }
    }
}

/// What processes take for a while is given back: leases, permits, scratch files, messages, events.
async fn nothing_is_held(
    world: &World,
    shared: &Shared,
    processes: &Processes,
    engine: &Engine,
    records: &[TaskRecord],
) {
    let watch = &world.watch;
    for record in records {
        if let Some(owner) = &record.task.lease_owner {
            let (task, status) = (record.task.id, record.task.status);
            watch.fails(format!(
                "2: task {task} is {status}, and {owner} holds its lease"
            ));
        }
    }
    match limits(engine).await {
        Ok(limits) => {
            let used = limits
                .iter()
                .flat_map(|of| of.uses.iter().map(move |it| (of, it)));
            for (limit, held) in used.filter(|(_, it)| it.held > 0) {
                let name = &limit.name;
                watch.fails(format!(
                    "limit: {} of the limit `{name}` are in use when all is at rest: {:?}",
                    held.held, held.holders
                ));
            }
        }
        Err(error) => watch.fails(format!("limit: the limits cannot be read: {error}")),
    }
    for process in processes.lock().iter() {
        let (left, name) = (process.scratch(shared), &process.name);
        if left > 0 {
            watch.fails(format!("2: {left} scratch folders are left of {name}"));
        }
    }
    let unpublished = watch.unpublished();
    if unpublished > 0 {
        watch.fails(format!("14: {unpublished} events were never published"));
    }
    let poison = DocumentQuery::Latest {
        kind: DocumentKind::Poison,
        limit: 1_000,
    };
    let kept = world.store.documents(&poison).await.map_or(0, |kept| {
        let rows = kept.rows.iter();
        rows.filter(|row| !row.name.starts_with("queue-")).count()
    });
    if kept < watch.all_quarantined() {
        watch.fails(format!(
            "14: {} messages were given up, and {kept} are kept for a person",
            watch.all_quarantined()
        ));
    }
}

/// Looks at the end of a run: an error says what is wrong.
pub(super) type Finally = dyn Fn(&Ended) -> Result<(), String> + Send + Sync;

/// The end of a run, as checks of a type look at it.
#[derive(Debug)]
pub struct Ended {
    /// All tasks.
    pub records: Vec<TaskRecord>,
    pub(super) ledgers: BTreeMap<&'static str, Ledger>,
    registry: Arc<Registry>,
}

impl Ended {
    /// Tasks that have this state.
    #[must_use]
    pub fn count(&self, status: TaskStatus) -> usize {
        let of = self.records.iter();
        of.filter(|record| record.task.status == status).count()
    }

    /// Tasks that have completed.
    #[must_use]
    pub fn completed(&self) -> usize {
        self.count(TaskStatus::Completed)
    }

    /// Tasks that wait for a person.
    #[must_use]
    pub fn parked(&self) -> usize {
        let of = self.records.iter();
        of.filter(|record| record.task.status.is_parked()).count()
    }

    /// What steps share of this type.
    ///
    /// # Panics
    /// Where the program does not provide it.
    #[must_use]
    pub fn state<T: Send + Sync + 'static>(&self) -> State<T> {
        let state = self.registry.states().get::<T>();
        state.unwrap_or_else(|| panic!("the program provides no {}", std::any::type_name::<T>()))
    }

    /// A service that keeps its keys.
    ///
    /// # Panics
    /// Where there is none of this name.
    #[must_use]
    pub fn ledger(&self, name: &str) -> &Ledger {
        let ledger = self.ledgers.get(name);
        ledger.unwrap_or_else(|| panic!("there is no ledger `{name}`"))
    }

    /// 16: what stands there is what completed tasks have done.
    pub(super) fn is_booked(&self, name: &str, ledger: &Ledger) -> Result<(), String> {
        for record in &self.records {
            let (task, status) = (record.task.id, record.task.status);
            let bookings = ledger.of(task);
            let wrong = match status {
                TaskStatus::Completed => bookings.values().any(|it| *it != Booking::Done),
                TaskStatus::Failed | TaskStatus::Cancelled if !record.task.residue => {
                    bookings.values().any(|it| *it == Booking::Done)
                }
                _ => false,
            };
            if wrong {
                return Err(format!(
                    "16: task {task} is {status}, and in `{name}` is of it {bookings:?}"
                ));
            }
        }
        self.what_stands_is_listed(ledger)
    }

    /// Of tasks that have not completed, what stands at a service that keeps its keys is among their open effects, and what a task below
    /// one has done, among its; and of those that are not in doubt, and whose undo did not fail, each stands. A step without a key there
    /// is left out.
    ///
    /// # Errors
    /// The task of which it is not so.
    pub fn what_stands_is_listed(&self, ledger: &Ledger) -> Result<(), String> {
        let mut listed = BTreeMap::new();
        let at_rest = self.records.iter().filter(|it| it.task.status.is_at_rest());
        for record in at_rest.filter(|it| it.task.status != TaskStatus::Completed) {
            if let Some(task_type) = self.registry.of(&*record.task) {
                let effects = operator::open_effects(&task_type, record);
                listed.insert(record.task.id, effects);
            }
        }
        for record in &self.records {
            let (task, status) = (record.task.id, record.task.status);
            let bookings = ledger.of(task);
            let stands = |step: &str| bookings.get(step) == Some(&Booking::Done);
            if status == TaskStatus::Completed {
                let parent = record
                    .task
                    .parent
                    .filter(|_| bookings.keys().any(|it| stands(it)));
                let above = parent.and_then(|it| Some((it, listed.get(&it.task)?)));
                if let Some((parent, effects)) = above
                    && !effects.iter().any(|it| it.no == parent.step)
                {
                    return Err(format!(
                        "16: task {task} has done {bookings:?} for step {} of task {}, whose open effects are {effects:?}",
                        parent.step, parent.task
                    ));
                }
            }
            let Some(effects) = listed.get(&task) else {
                continue;
            };
            let is_listed = |step: &str| effects.iter().any(|it| it.step == step);
            let missing = bookings.keys().find(|it| stands(it) && !is_listed(it));
            let is_sure = |it: &&OpenEffect| {
                !matches!(
                    it.kind,
                    OpenEffectKind::InDoubt | OpenEffectKind::UndoFailed
                )
            };
            let gone = |it: &OpenEffect| bookings.contains_key(&it.step) && !stands(&it.step);
            let wrong = effects.iter().filter(is_sure).find(|it| gone(it));
            if missing.is_some() || wrong.is_some() {
                return Err(format!(
                    "16: task {task} is {status}, of it is {bookings:?}, and its open effects are {effects:?}"
                ));
            }
        }
        Ok(())
    }
}
