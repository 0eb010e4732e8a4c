//! One run of a seed: faults while requests come, then none until all is at rest, then what must hold in the end.

use super::choice::Choice;
use super::clients::{Told, client};
use super::ending::{check_all, permits_are_used};
use super::executor::{self, Order};
use super::faults::{FaultId, Strike, Trouble};
use super::people::Operator;
use super::plan::Planned;
use super::process::{Kind, Process, Processes, Shared};
use super::world::{Options, World};
use super::{Outcome, Setup};
use crate::many_tasks::with_states;
use counterstep_contracts::bulk::BulkStatus;
use counterstep_contracts::{TaskId, TaskStatus, Tenant};
use counterstep_kernel::bulk;
use counterstep_steps::Registry;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::time::sleep;

/// What of a seed is run: all of it, or a part that was found to be enough.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Part {
    /// These faults; `None`: all.
    pub(super) faults: Option<BTreeSet<FaultId>>,
    /// Maximum number of tasks.
    pub(super) tasks: Option<u32>,
    /// Maximum number of processes of a kind.
    pub(super) hosts: Option<u32>,
    /// Tasks go on in the order in which they were woken.
    pub(super) in_order: bool,
}

/// Polls that a run may take: more is a livelock.
const MOST_POLLS: u64 = 3_000_000;

/// How long after all is healed everything has to be at rest.
const REST_WITHIN: Duration = Duration::from_secs(600);

/// Runs a seed, on this thread alone.
pub(super) fn run(seed: u64, part: &Part, keeps: bool, setup: &dyn Fn(&mut Setup)) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let outcome = runtime.block_on(tokio::task::unconstrained(run_in(seed, part, keeps, setup)));
    // What a user's code has started is not waited for.
    runtime.shutdown_background();
    outcome
}

async fn run_in(seed: u64, part: &Part, keeps: bool, setup: &dyn Fn(&mut Setup)) -> Outcome {
    let mut made = Setup::default();
    setup(&mut made);
    let mut options = Options::of(seed);
    options.tasks = options.tasks.min(part.tasks.unwrap_or(u32::MAX));
    options.workers = options.workers.min(part.hosts.unwrap_or(u32::MAX));
    options.apis = options.apis.min(part.hosts.unwrap_or(u32::MAX));
    if part.in_order {
        options.order = Order::First;
    }
    let calls = |types: Registry| {
        let services = made.services.0.keys();
        services.fold(types, |types, name| types.with_service(name))
    };
    let registry = Arc::new(with_states(calls(std::mem::take(&mut made.registry))).await);
    let older = match made.older.take() {
        Some(older) => Some(Arc::new(with_states(calls(older)).await)),
        None => None,
    };
    let (only, order) = (part.faults.clone(), options.order);
    let world = Arc::new(World::new(seed, options, only, keeps, registry, older).await);
    let shared = Arc::new(Shared::new(&world, made.services.clone()));
    let processes: Processes = Arc::new(Mutex::new(processes(&world)));
    let told = Arc::new(Mutex::new(Told::default()));
    let script = script(&world, &shared, &processes, &told, &made);
    let mut script = pin!(script);
    let watched = poll_fn(|context| {
        if world.watch.has_broken() {
            return Poll::Ready(());
        }
        script.as_mut().poll(context)
    });
    let choice = Choice::of(seed, "schedule");
    let (ended, polls) = executor::run(&world.tasks, order, choice, MOST_POLLS, watched).await;
    if ended.is_err() {
        world
            .watch
            .fails(format!("livelock: not at rest after {polls} polls"));
    }
    let statuses = world.watch.tasks().values().fold(
        BTreeMap::<TaskStatus, u32>::new(),
        |mut statuses, task| {
            *statuses.entry(task.status).or_default() += 1;
            statuses
        },
    );
    Outcome {
        seed,
        broken: world.watch.broken(),
        strikes: world.faults.struck(),
        options: format!("{:?} {:?}", world.options, world.faults.rates()),
        hash: world.trace.hash(),
        events: world.trace.events(),
        polls,
        lasted: world.now(),
        statuses,
        felt: world.watch.all_felt(),
        points: world.watch.points(),
        lines: world.trace.lines(),
    }
}

fn processes(world: &World) -> Vec<Process> {
    let of = |kind, most| (1..=most).map(move |number| Process::new(kind, number));
    let apis = of(Kind::Api, world.options.apis);
    let workers = of(Kind::Worker, world.options.workers);
    apis.chain(workers).chain(of(Kind::Reconciler, 1)).collect()
}

async fn script(
    world: &Arc<World>,
    shared: &Arc<Shared>,
    processes: &Processes,
    told: &Arc<Mutex<Told>>,
    made: &Setup,
) {
    for process in processes.lock().iter_mut() {
        process.start(world, shared);
    }
    let reaper = reap(world.clone(), shared.clone(), processes.clone());
    world.tasks.start(world.bag, Box::pin(reaper));
    let mut choice = Choice::of(world.seed, "requests");
    let mut clients = Vec::new();
    for number in 0..world.options.tasks {
        let form = (made.request)(&mut choice);
        let of = client(world.clone(), processes.clone(), told.clone(), number, form);
        let (done, is_done) = tokio::sync::oneshot::channel::<()>();
        world.tasks.start(
            world.bag,
            Box::pin(async move {
                of.await;
                drop(done);
            }),
        );
        clients.push(is_done);
    }
    let mut operators = Vec::new();
    for number in 0..world.options.operators {
        let operator = Operator::new(world, processes, number);
        let (done, is_done) = tokio::sync::oneshot::channel::<()>();
        world.tasks.start(
            world.bag,
            Box::pin(async move {
                operator.operates().await;
                drop(done);
            }),
        );
        operators.push(is_done);
    }
    let plan = world.plan(processes.lock().len());
    for event in plan {
        sleep(event.at.saturating_sub(world.now())).await;
        strike(world, shared, processes, &event);
    }
    sleep(world.options.faults_for.saturating_sub(world.now())).await;
    heal(world, shared, processes);
    for client in clients.into_iter().chain(operators) {
        // Its end, whatever it was.
        let _ = client.await;
    }
    if !rests(world, processes).await {
        return;
    }
    stays_at_rest(world, processes).await;
    check_all(world, shared, processes, told, &made.ledgers, &made.finally).await;
}

/// Kills the processes that a step takes along, and starts them again.
async fn reap(world: Arc<World>, shared: Arc<Shared>, processes: Processes) {
    loop {
        world.kills.notified().await;
        for name in world.take_killed() {
            if let Some(process) = processes.lock().iter_mut().find(|it| it.name == name) {
                process.kill(&world.tasks);
            }
            sleep(Duration::from_millis(1_000)).await;
            world.machine.runs().await;
            if let Some(process) = processes.lock().iter_mut().find(|it| it.name == name)
                && process.running.is_none()
            {
                process.start(&world, &shared);
            }
        }
    }
}

fn strike(world: &Arc<World>, shared: &Arc<Shared>, processes: &Processes, event: &Planned) {
    let Planned {
        id,
        trouble,
        process,
        lasts,
        ..
    } = event.clone();
    let name = processes.lock()[process].name.clone();
    let place = match trouble {
        Trouble::Outage => format!("the database answers no process for {lasts:?}"),
        Trouble::Pause => format!("{name} is paused for {lasts:?}"),
        Trouble::Stop => format!("{name} is asked to end, and is gone for {lasts:?}"),
        Trouble::Suspend => format!("the machine stands still for {lasts:?}"),
        Trouble::ClockSet => format!("the calendar is set by {} ms", event.by_millis),
        _ => format!("{name} is killed, and is gone for {lasts:?}"),
    };
    let is_there = match &processes.lock()[process].running {
        // One that is paused hears of nothing.
        Some(running) => {
            !matches!(trouble, Trouble::Stop | Trouble::Suspend)
                || !world.tasks.is_paused(running.link.bag)
        }
        None => matches!(
            trouble,
            Trouble::Outage | Trouble::Suspend | Trouble::ClockSet
        ),
    };
    if !is_there || !world.faults.planned(id, world.now(), trouble, &place) {
        return;
    }
    world.note((id, trouble), || format!("{place}  (fault)"));
    let (world, shared, processes) = (world.clone(), shared.clone(), processes.clone());
    match trouble {
        Trouble::Outage => world.go_out(lasts),
        Trouble::ClockSet => {
            world.machine.set(event.by_millis);
            if event.by_millis.abs() > 2_000 && !world.watch.all_leases().is_empty() {
                world.watch.felt(trouble);
            }
        }
        Trouble::Pause => pause(&world, &processes, &[process], lasts),
        Trouble::Suspend => {
            let all: Vec<usize> = (0..processes.lock().len()).collect();
            if !world.watch.all_leases().is_empty() {
                world.watch.felt(trouble);
            }
            world.machine.suspend();
            pause(&world, &processes, &all, lasts);
            let machine = world.machine.clone();
            let wakes = async move {
                sleep(lasts).await;
                machine.wake();
            };
            world.tasks.start(world.bag, Box::pin(wakes));
        }
        _ => {
            let of = world.clone();
            let comes_back = async move {
                let tasks = leases_of(&world, &processes.lock()[process]);
                if !tasks.is_empty() {
                    world.watch.felt(trouble);
                }
                if trouble == Trouble::Stop {
                    let running = processes.lock()[process].running.take();
                    if let Some(running) = running {
                        running.stop().await;
                    }
                } else {
                    processes.lock()[process].kill(&world.tasks);
                }
                sleep(lasts).await;
                world.machine.runs().await;
                let process = &mut processes.lock()[process];
                if process.running.is_none() {
                    process.start(&world, &shared);
                }
            };
            of.tasks.start(of.bag, Box::pin(comes_back));
        }
    }
}

/// The tasks whose lease a process has.
fn leases_of(world: &World, process: &Process) -> Vec<TaskId> {
    let running = process.running.as_ref();
    running.map_or_else(Vec::new, |it| world.watch.leased_by(&it.engine.id))
}

/// These processes stand still for a while.
fn pause(world: &Arc<World>, processes: &Processes, which: &[usize], lasts: Duration) {
    for process in which {
        let (leased, running) = {
            let process = &processes.lock()[*process];
            let running = process.running.as_ref();
            let running = running.map(|it| (it.link.clone(), it.engine.id.clone()));
            (leases_of(world, process), running)
        };
        let Some((link, owner)) = running else {
            continue;
        };
        if world.tasks.is_paused(link.bag) {
            continue;
        }
        world.tasks.pause(link.bag);
        let world = world.clone();
        let tasks = world.tasks.clone();
        let bag = world.bag;
        let goes_on = async move {
            sleep(lasts).await;
            world.machine.runs().await;
            let now = world.machine.timer();
            let lost = |task: &TaskId| {
                let lease = world.watch.lease_of(*task);
                lease.is_none_or(|(of, until)| of != *owner || until < now)
            };
            if leased.iter().any(lost) {
                world.watch.felt(Trouble::Pause);
                world.watch.reached("paused beyond its lease");
            }
            link.goes_on();
            world.tasks.resume(link.bag);
        };
        tasks.start(bag, Box::pin(goes_on));
    }
}

/// Nothing goes wrong from now on, and all processes are there.
fn heal(world: &Arc<World>, shared: &Arc<Shared>, processes: &Processes) {
    world.heal();
    world.machine.wake();
    for process in processes.lock().iter_mut() {
        if process.is_older {
            process.kill(&world.tasks);
        }
        match &process.running {
            Some(running) => {
                if world.tasks.is_paused(running.link.bag) {
                    running.link.goes_on();
                    world.tasks.resume(running.link.bag);
                }
            }
            None => process.start(world, shared),
        }
    }
}

async fn rests(world: &Arc<World>, processes: &Processes) -> bool {
    let until = world.now() + REST_WITHIN;
    loop {
        let tasks = world.watch.tasks();
        let going: Vec<_> = tasks
            .iter()
            .filter(|(_, task)| !task.status.is_at_rest())
            .collect();
        if going.is_empty() && !world.works_on() && is_decided(world).await {
            return true;
        }
        if world.now() > until {
            // The cause first: that tasks wait is what it leads to.
            permits_are_used(world, processes).await;
            if going.is_empty() {
                world.watch.fails(format!(
                    "2: a decision on many tasks is still under way, {REST_WITHIN:?} after all was healed"
                ));
            }
            for (task, seen) in going {
                world.watch.fails(format!(
                    "2: task {task} is {} at revision {}, {REST_WITHIN:?} after all was healed",
                    seen.status, seen.rev
                ));
            }
            return false;
        }
        sleep(Duration::from_millis(500)).await;
    }
}

/// Whether no decision on many tasks is under way; one that is paused is stopped. One whose process has lost its answer goes on once
/// its claim has ended, and what is at rest until then goes on with it.
async fn is_decided(world: &World) -> bool {
    let tenant = Tenant::default();
    let Ok(all) = bulk::list(&world.store, &tenant).await else {
        return false;
    };
    for paused in all.iter().filter(|it| it.status == BulkStatus::Paused) {
        let stopped = bulk::stop(&world.store, &tenant, &paused.id, "the end of the run").await;
        if stopped.is_err() {
            return false;
        }
    }
    all.iter().all(|it| it.status.has_ended())
}

/// Longer than two passes of the reconciler, a lease, and a redelivery.
const QUIET: Duration = Duration::from_secs(40);

async fn stays_at_rest(world: &Arc<World>, processes: &Processes) {
    // What was on its way when the last one came to rest. A sweep of objects changes tasks later, and their state never.
    sleep(QUIET).await;
    let before = world.watch.tasks();
    sleep(QUIET).await;
    for (task, seen) in world.watch.tasks() {
        let then = before.get(&task).map(|before| before.status);
        if then != Some(seen.status) {
            world.watch.fails(format!(
                "2: task {task} was at rest as {then:?}, and went on to {} at revision {}",
                seen.status, seen.rev
            ));
        }
    }
    for process in processes.lock().iter() {
        let kept = process.kept();
        if kept > 0 {
            let name = &process.name;
            world
                .watch
                .fails(format!("2: {kept} results are left in the spool of {name}"));
        }
    }
}

/// The faults of an outcome, each once.
pub(super) fn ids(strikes: &[Strike]) -> BTreeSet<FaultId> {
    strikes.iter().map(|strike| strike.id).collect()
}
