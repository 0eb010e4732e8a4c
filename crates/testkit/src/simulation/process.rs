//! The processes of a run: started, killed, paused, stopped in order, and started again on what they have left.

use super::choice::Choice;
use super::executor::Tasks;
use super::link::{Link, SimClock, SimRandom};
use super::objects::{Bucket, ObjectLink};
use super::queue::{Broker, QueueLink};
use super::steps::{Disk, ServiceLink, Services, SpoolLink, StepLink};
use super::store::StoreLink;
use super::wires::{LockLink, SignalLink};
use super::world::World;
use crate::through::Through;
use counterstep_adapters::blocking_calls::BlockingCalls;
use counterstep_adapters::folder::FolderScratch;
use counterstep_adapters::local::{LocalHints, LocalLocks};
use counterstep_adapters::system::LocalSignals;
use counterstep_contracts::Host;
use counterstep_kernel::host::{self, HostSettings, Spawn};
use counterstep_kernel::ports::{Clock, Lost, Ports, Store};
use counterstep_kernel::{Engine, EngineSettings, bulk};
use counterstep_reconciler::{self as reconciler, ReconcilerSettings};
use counterstep_steps::{CancelReason, CancelToken, Registry};
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// What processes share besides the database.
pub(super) struct Shared {
    pub(super) broker: Broker,
    pub(super) bucket: Bucket,
    pub(super) services: Services,
    signals: LocalSignals,
    locks: Arc<LocalLocks>,
    hints: Arc<LocalHints>,
    scratch: tempfile::TempDir,
}

impl Shared {
    pub(super) fn new(world: &Arc<World>, services: Services) -> Self {
        let observer = Arc::new(Link::new(world, "observer", 0));
        let clock: Arc<dyn Clock> = Arc::new(SimClock(observer));
        Self {
            broker: Broker::new(Duration::from_secs(10)),
            bucket: Bucket::default(),
            services,
            signals: LocalSignals::default(),
            locks: Arc::new(LocalLocks::with_clock(&clock)),
            hints: Arc::new(LocalHints::with_clock(&clock)),
            scratch: tempfile::Builder::new()
                .prefix("counterstep-simulation-")
                .tempdir()
                .expect("a temporary folder"),
        }
    }
}

/// What a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Api,
    Worker,
    Reconciler,
}

/// A process that is there, or will be again.
pub(super) struct Process {
    pub(super) name: String,
    pub(super) kind: Kind,
    number: u32,
    starts: u32,
    disk: Disk,
    /// It runs the older program.
    pub(super) is_older: bool,
    pub(super) running: Option<Running>,
}

/// A start of it.
pub(super) struct Running {
    pub(super) link: Arc<Link>,
    pub(super) engine: Engine,
    shutdown: CancelToken,
    ended: oneshot::Receiver<()>,
}

/// All processes of a run.
pub(super) type Processes = Arc<Mutex<Vec<Process>>>;

impl Process {
    pub(super) fn new(kind: Kind, number: u32) -> Self {
        let name = match kind {
            Kind::Api => format!("api {number}"),
            Kind::Worker => format!("worker {number}"),
            Kind::Reconciler => "reconciler".to_owned(),
        };
        Self {
            name,
            kind,
            number,
            starts: 0,
            disk: Disk::default(),
            is_older: false,
            running: None,
        }
    }

    /// Scratch files that it has left.
    pub(super) fn scratch(&self, shared: &Shared) -> usize {
        let folder = shared.scratch.path().join(&self.name);
        std::fs::read_dir(folder).map_or(0, Iterator::count)
    }

    /// Results on its disk that no start has taken up yet.
    pub(super) fn kept(&self) -> usize {
        self.disk.left()
    }

    /// Starts it on what it has left.
    pub(super) fn start(&mut self, world: &Arc<World>, shared: &Shared) {
        self.starts += 1;
        let link = Arc::new(Link::new(world, &self.name, self.starts));
        let mut choice = Choice::of(
            world.seed,
            &format!("program of {} {}", self.name, self.starts),
        );
        // Most processes begin with the older program, and go over to the newer one; some go back.
        let is_older = choice.chance(if self.starts == 1 { 700 } else { 300 });
        let older = world.older.as_ref();
        let older = older.filter(|_| is_older && !world.is_healed()).cloned();
        self.is_older = older.is_some();
        let engine = self.engine(&link, shared, older.as_ref().unwrap_or(&world.registry));
        world.owners.lock().insert(engine.id.to_string(), link.bag);
        let shutdown = CancelToken::new();
        let concurrency = world.options.concurrency;
        let spawn = spawn(&world.tasks, &link);
        let serving = self.serving(engine.clone(), shutdown.clone(), spawn, concurrency);
        let (end, ended) = oneshot::channel();
        let start = self.starts;
        link.note(("start", start), || format!("starts (start {start})"));
        world.tasks.start(
            link.bag,
            Box::pin(async move {
                serving.await;
                // An error: its end is not waited for.
                let _ = end.send(());
            }),
        );
        self.running = Some(Running {
            link,
            engine,
            shutdown,
            ended,
        });
    }

    fn engine(&self, link: &Arc<Link>, shared: &Shared, registry: &Arc<Registry>) -> Engine {
        let world = &link.world;
        let options = &world.options;
        let clock: Arc<dyn Clock> = Arc::new(SimClock(link.clone()));
        let around = StoreLink(link.clone());
        let store = Store::new(link.storage.clone());
        let (store, _) = store.through(|storage| Through::new(storage, around));
        let folder = shared.scratch.path().join(&self.name);
        let scratch = FolderScratch::open(Path::new(&folder)).expect("a folder");
        let locks = Arc::new(LockLink {
            link: link.clone(),
            locks: shared.locks.clone(),
            hints: shared.hints.clone(),
        });
        let ports = Ports {
            store,
            queue: Arc::new(QueueLink {
                link: link.clone(),
                broker: shared.broker.clone(),
            }),
            objects: Arc::new(ObjectLink {
                link: link.clone(),
                bucket: shared.bucket.clone(),
            }),
            scratch: Arc::new(scratch.blocking(BlockingCalls::Inline)),
            locks: locks.clone(),
            hints: locks,
            signals: Arc::new(SignalLink {
                link: link.clone(),
                signals: shared.signals.clone(),
            }),
            services: Arc::new(ServiceLink {
                link: link.clone(),
                services: shared.services.clone(),
            }),
            steps: Arc::new(StepLink(link.clone())),
            clock,
            random: Arc::new(SimRandom(link.clone())),
        };
        let settings = EngineSettings {
            lease: options.lease,
            step_timeout: Duration::from_secs(6),
            cancel_grace: Duration::from_millis(500),
            drain: Duration::from_secs(2),
            upload_timeout: options.upload_timeout,
            events: options.has_events,
            machine: format!("machine {}", self.number),
            ..EngineSettings::default()
        };
        let role = match self.kind {
            Kind::Api => "api",
            Kind::Worker => "worker",
            Kind::Reconciler => "reconciler",
        };
        let engine = Engine::new(ports, registry.clone(), settings, role);
        if !options.has_spool {
            return engine;
        }
        engine.spooled_by(Arc::new(SpoolLink {
            link: link.clone(),
            disk: self.disk.clone(),
        }))
    }

    fn serving(
        &self,
        engine: Engine,
        shutdown: CancelToken,
        spawn: Spawn,
        concurrency: usize,
    ) -> futures::future::BoxFuture<'static, ()> {
        let host = match self.kind {
            Kind::Reconciler => {
                let settings = ReconcilerSettings {
                    every: Duration::from_secs(5),
                    offer_after: Duration::from_secs(10),
                    lost: Lost::default(),
                    ..ReconcilerSettings::default()
                };
                return reconciler::serve(engine, settings, shutdown);
            }
            Kind::Api => Host::Api,
            Kind::Worker => Host::Worker,
        };
        let settings = HostSettings {
            poll: Duration::from_secs(1),
            ..HostSettings::for_all(&engine.registry, host, concurrency)
        };
        let bulk = (self.kind == Kind::Api).then(|| bulk::serve(engine.clone(), shutdown.clone()));
        let serving = host::serve(engine, settings, shutdown, spawn);
        Box::pin(async move {
            match bulk {
                Some(bulk) => drop(futures::join!(serving, bulk)),
                None => serving.await,
            }
        })
    }

    /// Ends it where it stands, as the operating system does.
    pub(super) fn kill(&mut self, tasks: &Tasks) {
        if let Some(running) = self.running.take() {
            running.link.note("kill", || "is killed".to_owned());
            running.link.close();
            tasks.drop_all(running.link.bag);
        }
    }
}

fn spawn(tasks: &Tasks, link: &Arc<Link>) -> Spawn {
    let (tasks, bag) = (tasks.clone(), link.bag);
    Arc::new(move |task| tasks.start(bag, task))
}

impl Running {
    /// Asks it to end in order, and waits for that.
    pub(super) async fn stop(self) {
        self.link.note("stop", || "ends in order".to_owned());
        self.shutdown.cancel(CancelReason::Shutdown);
        let ended = tokio::time::timeout(Duration::from_secs(60), self.ended).await;
        if ended.is_err() && !self.link.world.watch.has_broken() {
            let world = &self.link.world;
            let process = &self.link.process;
            world.watch.fails(format!(
                "20: {process} has not ended 60 s after it was asked to"
            ));
        }
        self.link.close();
        self.link.world.tasks.drop_all(self.link.bag);
    }
}
