//! The oracle of `why`: a task behind several shut gates, opened one after the other by what `why` names first, and by nothing
//! else. A gate that was not opened holds the task; one that was named and opened holds it no more.
//!
//! `SEED=n RUNS=1` runs one case again; `RUNS=10000` runs more of them.

use super::ask;
use crate::limits::{Service, inside, service};
use counterstep_adapters::embedded::{self, EmbeddedPaths};
use counterstep_contracts::operator::{OperatorMove, Why, WhyCode, WhyReason};
use counterstep_contracts::{Host, QueueName, Rate, Rev, StepStatus, TaskId, TaskStatus};
use counterstep_kernel::admission::breakers::{BreakerDecision, close_breaker};
use counterstep_kernel::admission::limits::{NewLimit, reset_limit, set_limit};
use counterstep_kernel::admission::paused_queues::{pause_queue, resume_queue};
use counterstep_kernel::admission::paused_workers::{Processes, pause_workers, resume_workers};
use counterstep_kernel::client::{cancel, signal};
use counterstep_kernel::host::{self, HostSettings, Spawn};
use counterstep_kernel::operator::{Recount, Retrial, retry, set_recoveries};
use counterstep_kernel::ports::PortsRuntime;
use counterstep_kernel::record::{StepRow, TaskRecord};
use counterstep_kernel::{Engine, EngineSettings};
use counterstep_macros::distributed_task;
use counterstep_reconciler::{ReconcilerSettings, pass};
use counterstep_steps::breaker::{Breaker, Ticket, Verdict};
use counterstep_steps::times::read_time;
use counterstep_steps::{
    AwaitSignal, AwaitTask, BreakerPolicy, CancelReason, CancelToken, Limit, Registry, RetryPolicy,
    Sleep, Slept, StepContext, StepError, StepResult,
};
use counterstep_testkit::many_tasks::{Site, eventually};
use counterstep_testkit::seed::{runs, seed};
use counterstep_testkit::{Form, Harness};
use futures::StreamExt;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

const BANK: Limit = Limit::named("deals-bank").at_once(1);
const LINE: BreakerPolicy = BreakerPolicy::named("deals-line")
    .after_failures(1)
    .within("1h")
    .open_for("10m");
const AGAIN: RetryPolicy = RetryPolicy::constant("1m").max_retries(5);

/// What is in the way of one task.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Plan {
    /// The case that it belongs to.
    case: String,
    /// Tasks of one key run one after the other.
    key: String,
    stumbles: i32,
    naps: bool,
    asks: bool,
    sends: bool,
    parks: bool,
}

struct Deal;

#[distributed_task(
    name = "Deal",
    queue = "deals",
    key = "req.key",
    at_once = 1,
    max_recoveries = 3,
    cancellable
)]
impl Deal {
    type Request = Plan;
    type Response = ();

    #[step(1, host = "worker", heavy, limit = BANK, breaker = LINE, no_undo = "does nothing")]
    async fn pay(_ctx: &StepContext) -> StepResult<u32> {
        Ok(1)
    }

    #[step(2, host = "worker", retry = AGAIN, no_undo = "does nothing")]
    async fn stumble(ctx: &StepContext, plan: &Plan) -> StepResult<bool> {
        match ctx.attempt().0 <= plan.stumbles {
            true => Err(StepError::transient("it stumbles")),
            false => Ok(true),
        }
    }

    #[step(3, host = "worker")]
    fn nap(plan: &Plan) -> Sleep {
        match plan.naps {
            true => Sleep::for_("5m"),
            false => Sleep::until(std::time::SystemTime::UNIX_EPOCH),
        }
    }

    #[step(4, host = "worker", when = is_asked)]
    fn approval(_nap: &Slept) -> AwaitSignal<bool> {
        AwaitSignal::within("30d")
    }

    fn is_asked(plan: &Plan) -> bool {
        plan.asks
    }

    #[step(5, host = "worker", when = is_sent)]
    fn part(plan: &Plan) -> AwaitTask<Part> {
        AwaitTask::of(plan)
    }

    fn is_sent(plan: &Plan) -> bool {
        plan.sends
    }

    #[step(
        6,
        host = "worker",
        no_undo = "does nothing",
        on_exhausted = "dead_letter"
    )]
    async fn close(ctx: &StepContext, plan: &Plan) -> StepResult<u64> {
        match plan.parks && ctx.attempt().0 == 1 {
            true => Err(StepError::permanent("a person has to look")),
            false => Ok(1),
        }
    }

    fn respond() {}
}

/// What a deal submits.
struct Part;

#[distributed_task(name = "Part", queue = "parts", cancellable)]
impl Part {
    type Request = Plan;
    type Response = u32;

    #[step(1, host = "worker")]
    fn consent(_plan: &Plan) -> AwaitSignal<bool> {
        AwaitSignal::within("30d")
    }

    #[step(2, host = "worker", no_undo = "does nothing")]
    async fn add(_consent: &bool) -> StepResult<u32> {
        Ok(1)
    }

    fn respond(add: &u32) -> u32 {
        *add
    }
}

/// Starts when no other task of its key has come for a while.
struct Late;

#[distributed_task(
    name = "Late",
    queue = "deals",
    key = "req.key",
    at_once = 1,
    debounce = "2m",
    cancellable
)]
impl Late {
    type Request = Plan;
    type Response = ();

    #[step(1, host = "worker", breaker = LINE, no_undo = "does nothing")]
    async fn pay(_ctx: &StepContext) -> StepResult<u32> {
        Ok(1)
    }

    fn respond() {}
}

macro_rules! holder {
    ($type:ident, $name:literal, $($what:tt)*) => {
        struct $type;

        #[distributed_task(name = $name, queue = "holders", timeout = "10d")]
        impl $type {
            type Request = Plan;
            type Response = ();

            #[step(1, host = "worker", timeout = "10d", no_undo = "does nothing" $($what)*)]
            async fn hold(plan: &Plan) -> StepResult<u32> {
                service(&plan.case).call().await;
                Ok(1)
            }

            fn respond() {}
        }
    };
}

holder!(HoldsRoom, "HoldsRoom", , heavy);
holder!(HoldsPermit, "HoldsPermit", , limit = BANK);
holder!(HoldsSlot, "HoldsSlot",);

/// What runs where nothing is in the way: once it has, hosts have had a turn.
struct Errand;

#[distributed_task(name = "OracleErrand", queue = "errands")]
impl Errand {
    type Request = Plan;
    type Response = ();

    #[step(1, host = "worker", no_undo = "does nothing")]
    async fn run(_ctx: &StepContext) -> StepResult<u32> {
        Ok(1)
    }

    fn respond() {}
}

fn registry() -> Registry {
    Registry::new()
        .with::<Deal>()
        .with::<Part>()
        .with::<Late>()
        .with::<HoldsRoom>()
        .with::<HoldsPermit>()
        .with::<HoldsSlot>()
        .with::<Errand>()
}

/// A gate that a case shuts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Gate {
    Queue,
    Workers,
    Beside,
    Place,
    Breaker,
    Heavy,
    Limit,
    LimitClosed,
    NoHost,
    Stumbles,
    Naps,
    Asks,
    Sends,
    Parks,
    Debounce,
}

impl Gate {
    const OF_DEALS: [Self; 14] = [
        Self::Queue,
        Self::Workers,
        Self::Beside,
        Self::Place,
        Self::Breaker,
        Self::Heavy,
        Self::Limit,
        Self::LimitClosed,
        Self::NoHost,
        Self::Stumbles,
        Self::Naps,
        Self::Asks,
        Self::Sends,
        Self::Parks,
    ];

    /// What needs a host that runs something else, or stands in the way of another one.
    fn excludes(self, other: Self) -> bool {
        let pair = [self.min(other), self.max(other)];
        matches!(
            pair,
            [Self::Limit, Self::LimitClosed]
                | [Self::Beside | Self::Heavy | Self::Limit, Self::NoHost]
        )
    }
}

/// A declaration, a state and faults.
struct Case {
    seed: u64,
    gates: BTreeSet<Gate>,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SEED={} {:?}", self.seed, self.gates)
    }
}

impl Case {
    fn of(seed: u64) -> Self {
        let mut chance = StdRng::seed_from_u64(seed);
        let is_late = chance.random_ratio(1, 8);
        let mut gates = BTreeSet::new();
        let mut all = match is_late {
            true => vec![Gate::Queue, Gate::Breaker, Gate::NoHost],
            false => Gate::OF_DEALS.to_vec(),
        };
        all.shuffle(&mut chance);
        let most = chance.random_range(0..=6);
        for gate in all {
            let fits = gates.iter().all(|other| !gate.excludes(*other));
            if gates.len() < most && fits {
                gates.insert(gate);
            }
        }
        if is_late {
            gates.insert(Gate::Debounce);
        }
        Self { seed, gates }
    }

    fn has(&self, gate: Gate) -> bool {
        self.gates.contains(&gate)
    }

    fn name(&self) -> String {
        format!("deal-{}", self.seed)
    }

    /// What the task is, and what is in its way inside it.
    fn form(&self) -> Form {
        let form = match self.has(Gate::Debounce) {
            true => Form::to::<Late>(),
            false => Form::to::<Deal>(),
        };
        form.field("case", self.name())
            .field("key", "a")
            .field("stumbles", i32::from(self.has(Gate::Stumbles)))
            .field("naps", self.has(Gate::Naps))
            .field("asks", self.has(Gate::Asks))
            .field("sends", self.has(Gate::Sends))
            .field("parks", self.has(Gate::Parks))
    }

    fn most_rounds(&self) -> usize {
        self.gates.len() + 3
    }
}

const KIM: &str = "operator:kim";
const NOTE: &str = "a test";

/// Reports often, so that `why` goes by what is so.
const LOST_AFTER: Duration = Duration::from_secs(45);

/// Looks of a host at what is due.
const POLL: Duration = Duration::from_millis(50);

/// How many times a question is asked again where the answer is about to change.
const LOOKS: usize = 20;

/// The program under a case.
struct World {
    site: Site,
    case: Case,
    holders: Arc<Service>,
    task: TaskId,
    others: Vec<(CancelToken, tokio::task::JoinHandle<()>)>,
    serves: bool,
    /// The gates before the first step that are not opened yet.
    shut: BTreeSet<Gate>,
}

fn settings(settings: &mut EngineSettings) {
    settings.machine = "m1".to_owned();
    settings.heavy = 1;
    settings.lease = Duration::from_secs(30 * 24 * 3600);
    settings.step_timeout = Duration::from_secs(30 * 24 * 3600);
    settings.lost_after = LOST_AFTER;
}

impl World {
    /// Shuts the gates, and submits the task.
    async fn of(case: Case) -> Self {
        let mut site = Harness::embedded(registry())
            .settings(settings)
            .start()
            .await;
        let queue = QueueName("deals".to_owned());
        let holders = service(&case.name());
        site.serve(8);
        if case.has(Gate::Place) {
            // It sleeps with its place.
            let form = Case {
                seed: case.seed,
                gates: [Gate::Asks].into(),
            };
            let first = site.submit(form.form()).await;
            site.all_are(TaskStatus::Waiting, &[first]).await;
        }
        if case.has(Gate::LimitClosed) {
            close(&site, &case).await;
        }
        pause_queue(&site.engine, &queue, KIM, NOTE)
            .await
            .expect("paused");
        // Hosts know of it within a second. What those of before have asked for may bring a task yet.
        site.clock.advance("2s");
        site.stop().await;
        let serves = !case.has(Gate::NoHost);
        if serves {
            site.serve(8);
        }
        let mut held = 0;
        for (gate, form, count) in [
            (Gate::Heavy, Form::to::<HoldsRoom>(), 1),
            (Gate::Limit, Form::to::<HoldsPermit>(), 1),
            (Gate::Beside, Form::to::<HoldsSlot>(), 4),
        ] {
            for _ in 0..count * usize::from(case.has(gate)) {
                site.submit(form.clone().field("case", case.name())).await;
                held += 1;
            }
        }
        inside(&holders, held).await;
        if case.has(Gate::Workers) {
            let here = Processes {
                machine: site.engine.settings.machine.clone(),
                role: "test".to_owned(),
            };
            pause_workers(&site.engine, &here, KIM, NOTE)
                .await
                .expect("paused");
            site.clock.advance("2s");
        }
        if case.has(Gate::Breaker) {
            breaker(&site)
                .report(Ticket::default(), Verdict::Failed)
                .await;
        }
        let task = site.submit(case.form()).await;
        if case.has(Gate::Beside) {
            let to = Recount {
                attempts: 2,
                actor: KIM.to_owned(),
                note: NOTE.to_owned(),
            };
            set_recoveries(&site.engine, task, to).await.expect("set");
        }
        if !case.has(Gate::Queue) {
            resume_queue(&site.engine, &queue, KIM, NOTE)
                .await
                .expect("resumed");
        }
        Self {
            site,
            shut: case.gates.clone(),
            case,
            holders,
            task,
            others: Vec::new(),
            serves,
        }
    }

    async fn record(&self) -> TaskRecord {
        self.site.record(self.task).await
    }

    /// Passes time until each process has reported anew.
    async fn refresh(&self) {
        let store = &self.site.engine.ports.store;
        let before = store.workers().await.expect("workers").now;
        self.site
            .clock
            .advance_by(LOST_AFTER / 3 + Duration::from_secs(1));
        eventually("new reports", || async {
            let seen = store.workers().await.expect("workers").rows;
            let is_new = |seen: &counterstep_kernel::ports::WorkerSeen| {
                seen.row.is_stopped || seen.seen_at > before
            };
            seen.iter().all(is_new).then_some(())
        })
        .await;
    }

    /// A turn for the hosts: a task with nothing in its way runs. Where a process may drain for a task, it takes no other: then some
    /// looks of its.
    async fn turn_of_hosts(&self) {
        if !self.serves {
            return;
        }
        if self.case.has(Gate::Beside) || self.shut.contains(&Gate::Workers) {
            self.site.engine.ports.clock.sleep(POLL * 3).await;
            return;
        }
        let errand = self.site.submit(Form::to::<Errand>()).await;
        self.site.all_are(TaskStatus::Completed, &[errand]).await;
    }

    /// Asks until what is named first is one of the gates that are shut, and gives hosts a turn between two questions: a task that is
    /// about to be claimed holds, for a moment, what it needs itself. An error is what is wrong with the answer.
    async fn settled(&self) -> Result<(Why, TaskRecord), String> {
        let mut last = None;
        for _ in 0..LOOKS {
            let (before, why) = (self.record().await, ask(&self.site, self.task).await);
            let Some(reason) = why.because.first().cloned() else {
                return Err("it names no reason".to_owned());
            };
            if why.status.is_terminal() {
                return Ok((why, before));
            }
            // An answer about a task that moved meanwhile is about neither state.
            if progress(&self.record().await) != progress(&before) {
                continue;
            }
            self.turn_of_hosts().await;
            let after = self.record().await;
            let moves = progress(&after) != progress(&before);
            match gate_of(reason.code) {
                // A time that has come is no gate.
                None => {}
                Some(gate) if moves && self.shut.contains(&gate) => {
                    return Err(red(&reason, "is shut, and the task moves"));
                }
                Some(gate) if !self.shut.contains(&gate) => {
                    last = Some(red(&reason, "is named, and is open"));
                    continue;
                }
                Some(_) => {}
            }
            if !moves && after.task.rev == before.task.rev {
                return Ok((why, before));
            }
        }
        Err(last.unwrap_or_else(|| "the task does not come to rest".to_owned()))
    }

    /// Asks, and does what the answer says. An error is what is wrong with the answer.
    async fn round(&mut self, seen: &mut BTreeSet<Seen>) -> Result<bool, String> {
        self.refresh().await;
        let (why, record) = self.settled().await?;
        if why.status.is_terminal() {
            return Ok(true);
        }
        let reason = why.because[0].clone();
        if !seen.insert(Seen::of(&reason, record.task.rev)) {
            return Err(red(&reason, "is named twice, and nothing has changed"));
        }
        match first_move(&why).cloned() {
            Some(can) => self.follow(&can, &reason).await?,
            None => {
                let until = reason
                    .until
                    .as_deref()
                    .ok_or_else(|| red(&reason, "names neither a move nor a time"))?;
                self.pass_until(until, &record);
            }
        }
        if let Some(gate) = gate_of(reason.code) {
            self.shut.remove(&gate);
        }
        self.until_gone(&reason, record.task.rev).await?;
        Ok(false)
    }

    /// Waits until it is named no more. What is opened is seen within a minute.
    async fn until_gone(&self, reason: &WhyReason, rev: Rev) -> Result<(), String> {
        let is_gone = || async {
            let why = ask(&self.site, self.task).await;
            let is_there = why.because.iter().any(|other| same(other, reason));
            let moves = self.record().await.task.rev > rev;
            (why.status.is_terminal() || !is_there || moves).then_some(())
        };
        // A report that was being written while the clock was moved is followed by the next one after a whole period.
        let (soon, at_last) = (POLL * 2, LOST_AFTER / 3 + Duration::from_secs(10));
        for (pause, patience) in [
            (0, soon),
            (1, soon),
            (2, soon),
            (10, soon),
            (20, soon),
            (27, at_last),
        ] {
            self.site.clock.advance_by(Duration::from_secs(pause));
            let gone = eventually("another reason", is_gone);
            if tokio::time::timeout(patience, gone).await.is_ok() {
                return Ok(());
            }
        }
        Err(red(reason, "stays after its move"))
    }

    fn pass_until(&self, until: &str, record: &TaskRecord) {
        let left = read_time(until).expect("a time").after(record.now);
        self.site.clock.advance_by(left + Duration::from_secs(1));
    }

    /// Does what an operator can do.
    async fn follow(&mut self, can: &OperatorMove, reason: &WhyReason) -> Result<(), String> {
        if let Some(command) = &can.command {
            return self.run(command, reason).await;
        }
        let engine = &self.site.engine;
        let body = can.body.clone().unwrap_or(Value::Bool(true));
        let parts: Vec<&str> = can.path.trim_start_matches("/api/").split('/').collect();
        let id = |text: &str| text.parse::<TaskId>().expect("an id");
        let done = match (&*can.method, &parts[..]) {
            ("POST", ["queues", queue, "resume"]) => {
                let queue = QueueName((*queue).to_owned());
                resume_queue(engine, &queue, KIM, NOTE)
                    .await
                    .map(drop)
                    .map_err(|error| error.to_string())
            }
            ("POST", ["workers", machine, "resume"]) => {
                let of = Processes {
                    machine: (*machine).to_owned(),
                    role: body["role"].as_str().expect("a role").to_owned(),
                };
                resume_workers(engine, &of, KIM, NOTE)
                    .await
                    .map(drop)
                    .map_err(|error| error.to_string())
            }
            ("POST", ["breakers", name, "close"]) => {
                let by = BreakerDecision {
                    actor: KIM,
                    note: NOTE,
                };
                close_breaker(engine, name, by)
                    .await
                    .map(drop)
                    .map_err(|error| error.to_string())
            }
            ("PUT", ["limits", name]) => {
                let at_once = body["at_once"].as_u64().map(|most| most as u32 + 1);
                let new = NewLimit {
                    at_once,
                    rate: None,
                    actor: KIM,
                    note: NOTE,
                };
                set_limit(engine, name, new)
                    .await
                    .map(drop)
                    .map_err(|error| error.to_string())
            }
            ("POST", ["limits", name, "reset"]) => reset_limit(engine, name, KIM, NOTE)
                .await
                .map(drop)
                .map_err(|error| error.to_string()),
            ("POST", ["tasks", task, "recoveries"]) => {
                let to = Recount {
                    attempts: body["recovery_attempts"].as_u64().expect("a count") as u32,
                    actor: KIM.to_owned(),
                    note: NOTE.to_owned(),
                };
                set_recoveries(engine, id(task), to)
                    .await
                    .map(drop)
                    .map_err(|error| error.to_string())
            }
            ("POST", ["tasks", task, "retry"]) => {
                let retrial = Retrial {
                    direction: None,
                    edit: None,
                    actor: KIM.to_owned(),
                    note: NOTE.to_owned(),
                    bulk: None,
                };
                retry(engine, id(task), retrial)
                    .await
                    .map(drop)
                    .map_err(|error| error.to_string())
            }
            ("POST", ["tasks", task, "signals", step]) => {
                signal(engine, id(task), step, Value::Bool(true), KIM)
                    .await
                    .map(drop)
                    .map_err(|error| error.to_string())
            }
            ("DELETE", ["tasks", task]) => cancel(engine, id(task), KIM)
                .await
                .map(drop)
                .map_err(|error| error.to_string()),
            _ => Err(format!("no such call: {} {}", can.method, can.path)),
        };
        done.map_err(|error| red(reason, &format!("its move fails: {error}")))
    }

    async fn run(&mut self, command: &str, reason: &WhyReason) -> Result<(), String> {
        let words: Vec<&str> = command.split_whitespace().collect();
        match &words[..] {
            ["worker", ..] if !self.serves => {
                self.serves = true;
                self.site.serve(8);
                Ok(())
            }
            ["worker", ..] => {
                self.another_process().await;
                Ok(())
            }
            ["reconciler", "--once"] => {
                let settings = ReconcilerSettings::default();
                let passed = pass(&self.site.engine, &settings).await;
                passed.map(drop).map_err(|error| error.to_string())
            }
            _ => Err(red(reason, &format!("no such command: {command}"))),
        }
    }

    async fn another_process(&mut self) {
        let paths = EmbeddedPaths {
            database: self.site.folder().join("counterstep.db"),
            objects: self.site.folder().join("objects"),
            scratch: self.site.folder().join("scratch"),
        };
        let ports = embedded::open(paths, self.site.clock.embedded()).await;
        let mut ports = ports.expect("the adapters open");
        // As where processes share a server of hints.
        ports.hints = self.site.engine.ports.hints.clone();
        let mut of = EngineSettings::default();
        settings(&mut of);
        let registry = self.site.engine.registry.clone();
        let engine = Engine::new(ports, registry.clone(), of, "another");
        let mut settings = HostSettings::for_all(&registry, Host::Worker, 8);
        settings.poll = POLL;
        let spawn: Spawn = Arc::new(|future| drop(tokio::spawn(future)));
        let shutdown = CancelToken::new();
        let id = engine.id.to_string();
        let serving = tokio::spawn(host::serve(engine, settings, shutdown.clone(), spawn));
        // Time is to pass for it, too.
        let store = &self.site.engine.ports.store;
        eventually("another process", || async {
            let seen = store.workers().await.expect("workers").rows;
            seen.iter().any(|seen| seen.row.id == id).then_some(())
        })
        .await;
        self.others.push((shutdown, serving));
    }

    async fn end(mut self) {
        self.holders.gate.add_permits(100);
        self.site.stop().await;
        for (shutdown, serving) in self.others {
            shutdown.cancel(CancelReason::Shutdown);
            serving.await.expect("it ends");
        }
    }
}

/// For how many days a start is waited for.
const DAYS: u32 = 5;

/// Allows one start a day, and uses it up.
async fn close(site: &Site, case: &Case) {
    let day = Rate {
        starts: 1,
        per: Duration::from_secs(24 * 3600),
    };
    let closed = NewLimit {
        at_once: None,
        rate: Some(day),
        actor: KIM,
        note: NOTE,
    };
    set_limit(&site.engine, BANK.name, closed)
        .await
        .expect("set");
    site.clock.advance("2s");
    let name = format!("{}-first", case.name());
    service(&name).gate.add_permits(1);
    let form = Form::to::<HoldsPermit>().field("case", name);
    let first = [site.submit(form).await];
    for _ in 0..DAYS {
        let used_up = site.all_are(TaskStatus::Completed, &first);
        if tokio::time::timeout(Duration::from_secs(10), used_up)
            .await
            .is_ok()
        {
            return;
        }
        // An attempt that had the start of this day, and was not claimed in time, has lost it.
        site.clock.advance("24h");
    }
    panic!("no start in {DAYS} days");
}

fn breaker(site: &Site) -> Breaker {
    let ports = &site.engine.ports;
    let runtime = Arc::new(PortsRuntime::from(ports));
    Breaker::new("deals-line", LINE, ports.hints.clone(), runtime)
}

/// The gate that a reason is about; `None`: it is one that is always so while it is named.
fn gate_of(code: WhyCode) -> Option<Gate> {
    match code {
        WhyCode::QueuePaused => Some(Gate::Queue),
        WhyCode::WorkersPaused => Some(Gate::Workers),
        WhyCode::Beside => Some(Gate::Beside),
        WhyCode::Concurrency => Some(Gate::Place),
        WhyCode::Breaker => Some(Gate::Breaker),
        WhyCode::Heavy => Some(Gate::Heavy),
        WhyCode::Limit => Some(Gate::Limit),
        WhyCode::LimitClosed => Some(Gate::LimitClosed),
        WhyCode::NoHost | WhyCode::Stopping => Some(Gate::NoHost),
        _ => None,
    }
}

/// What ends the first reason; `None`: time does.
fn first_move(why: &Why) -> Option<&OperatorMove> {
    let first = why.because[0].code;
    why.operator_can.iter().find(|can| can.ends == Some(first))
}

/// How far each step has come: one that waits, or does so for something else, does not move.
fn progress(record: &TaskRecord) -> Vec<(i32, bool)> {
    let has_ended =
        |row: &StepRow| matches!(row.status, StepStatus::Completed | StepStatus::Skipped);
    let steps = record.steps.iter();
    steps.map(|row| (row.attempts.0, has_ended(row))).collect()
}

/// The same thing in the way. Of a task that waits for another one: what that one waits for.
fn same(one: &WhyReason, other: &WhyReason) -> bool {
    let is_same = (one.code, &one.steps) == (other.code, &other.steps);
    is_same && (one.code != WhyCode::Tasks || one.detail == other.detail)
}

fn red(reason: &WhyReason, what: &str) -> String {
    format!("{:?} {what}: {reason:?}", reason.code)
}

/// A round, to be told from another one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Seen {
    code: String,
    steps: Vec<String>,
    until: Option<String>,
    rev: i64,
}

impl Seen {
    fn of(reason: &WhyReason, rev: Rev) -> Self {
        Self {
            code: format!("{:?}", reason.code),
            steps: reason.steps.clone(),
            until: reason.until.clone(),
            rev: rev.0,
        }
    }
}

/// What is wrong in a case; `None`: nothing.
async fn red_line(seed: u64) -> Option<String> {
    let mut world = World::of(Case::of(seed)).await;
    let (mut seen, mut rounds) = (BTreeSet::new(), 0);
    let wrong = loop {
        match world.round(&mut seen).await {
            Ok(true) => break None,
            Ok(false) if rounds > world.case.most_rounds() => {
                break Some(format!("it takes too many rounds: {seen:?}"));
            }
            Ok(false) => rounds += 1,
            Err(wrong) => break Some(wrong),
        }
    };
    let wrong = wrong.map(|wrong| format!("{}\n    {wrong}", world.case));
    world.end().await;
    wrong
}

/// Cases side by side: most of their time is waiting.
const SIDE_BY_SIDE: usize = 12;

#[tokio::test(flavor = "multi_thread")]
async fn each_round_opens_what_why_names_first_and_nothing_else_holds_the_task() {
    let (first, count) = (seed(), runs(300));
    let cases = (0..count).map(|at| tokio::spawn(red_line(first.wrapping_add(at))));
    let wrong: Vec<String> = futures::stream::iter(cases)
        .buffer_unordered(SIDE_BY_SIDE)
        .filter_map(|ended| async { ended.unwrap_or_else(|panic| Some(panic.to_string())) })
        .collect()
        .await;
    assert!(
        wrong.is_empty(),
        "{} of {count} cases are wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
