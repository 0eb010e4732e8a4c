//! A whole installation from one seed, on one thread and in a time of its own: the engine, its processes and the SQLite adapter
//! are the real ones. What they share is slow, refuses, loses answers; processes are killed, paused and started again; and after
//! each change the invariants are looked at.
//!
//! It says nothing of threads, of power cuts, and of PostgreSQL, NATS, Redis and buckets as they are.

mod choice;
mod clients;
mod executor;
mod faults;
mod link;
mod objects;
mod process;
mod queue;
mod run;
mod shrink;
mod steps;
mod store;
mod trace;
mod watch;
mod wires;
mod world;

pub use choice::Choice;
pub use faults::{FaultId, Strike, Trouble};
pub use run::Ended;

use crate::form::Form;
use counterstep_contracts::TaskStatus;
use counterstep_kernel::ports::{ServiceAnswer, ServiceError, ServiceRequest};
use counterstep_steps::{DistributedTask, Registry};
use parking_lot::Mutex;
use run::Part;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

type Request = dyn Fn(&mut Choice) -> Form + Send + Sync;
type Finally = dyn Fn(&Ended) -> Result<(), String> + Send + Sync;

/// What one run is made of: made anew for each.
pub struct Setup {
    registry: Registry,
    request: Box<Request>,
    services: steps::Services,
    finally: Vec<Box<Finally>>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            registry: Registry::new(),
            request: Box::new(|_| Form::new()),
            services: steps::Services::default(),
            finally: Vec::new(),
        }
    }
}

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setup").finish_non_exhaustive()
    }
}

impl Setup {
    /// These task types.
    pub fn types(&mut self, registry: Registry) -> &mut Self {
        self.registry = registry;
        self
    }

    /// Each request is made by this.
    pub fn request(
        &mut self,
        make: impl Fn(&mut Choice) -> Form + Send + Sync + 'static,
    ) -> &mut Self {
        self.request = Box::new(make);
        self
    }

    /// A service of this name, which steps call. Its answers get lost.
    pub fn service(
        &mut self,
        name: &str,
        answer: impl Fn(&ServiceRequest) -> Result<ServiceAnswer, ServiceError> + Send + Sync + 'static,
    ) -> &mut Self {
        self.services.0.insert(name.to_owned(), Arc::new(answer));
        self
    }

    /// Looked at in the end, when all is at rest: an error says what is wrong.
    pub fn finally(
        &mut self,
        check: impl Fn(&Ended) -> Result<(), String> + Send + Sync + 'static,
    ) -> &mut Self {
        self.finally.push(Box::new(check));
        self
    }
}

/// How a run has come out.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Its seed.
    pub seed: u64,
    /// What does not hold, with the numbers of `docs/invariants.md`. Empty: all does.
    pub broken: Vec<String>,
    /// The faults that have struck.
    pub strikes: Vec<Strike>,
    /// What the seed has chosen.
    pub options: String,
    /// The same for each run of the seed.
    pub hash: u64,
    /// Events that went into the hash.
    pub events: u64,
    /// Polls of tasks.
    pub polls: u64,
    /// The simulated time.
    pub lasted: Duration,
    /// Tasks by their state in the end.
    pub statuses: BTreeMap<TaskStatus, u32>,
    /// Points that it has reached, and how often.
    pub points: BTreeMap<String, u64>,
    /// What has happened, where that was asked for.
    lines: Vec<String>,
}

/// Seeds of a simulation.
pub struct Simulation {
    setup: Box<dyn Fn(&mut Setup) + Send + Sync>,
    first: u64,
    seeds: u64,
    budget: Option<Duration>,
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation")
            .field("first", &self.first)
            .field("seeds", &self.seeds)
            .finish_non_exhaustive()
    }
}

/// Tasks of a type, under all that may go wrong around them.
#[must_use]
pub fn simulate<T: DistributedTask>(
    setup: impl Fn(&mut Setup) + Send + Sync + 'static,
) -> Simulation {
    Simulation::of(move |made| {
        made.types(Registry::new().with::<T>());
        setup(made);
    })
}

impl Simulation {
    /// Of any task types.
    #[must_use]
    pub fn of(setup: impl Fn(&mut Setup) + Send + Sync + 'static) -> Self {
        Self {
            setup: Box::new(setup),
            first: 1,
            seeds: 100,
            budget: None,
        }
    }

    /// So many seeds.
    #[must_use]
    pub fn seeds(self, seeds: u64) -> Self {
        Self { seeds, ..self }
    }

    /// From this one on.
    #[must_use]
    pub fn from(self, first: u64) -> Self {
        Self { first, ..self }
    }

    /// No further seed begins after this time.
    #[must_use]
    pub fn within(self, budget: Duration) -> Self {
        Self {
            budget: Some(budget),
            ..self
        }
    }

    /// Runs one seed.
    #[must_use]
    pub fn run(&self, seed: u64) -> Outcome {
        run::run(seed, &Part::default(), false, &*self.setup)
    }

    /// Runs the seeds. A seed under which something does not hold is made as small as that still shows it, and told as a story.
    ///
    /// # Panics
    /// With that story.
    #[track_caller]
    pub fn check(&self) -> Vec<Outcome> {
        let began = Instant::now();
        let next = AtomicU64::new(self.first);
        let (done, failed) = (Mutex::new(Vec::new()), Mutex::new(None::<Outcome>));
        let seeds = || {
            while failed.lock().is_none() && self.budget.is_none_or(|most| began.elapsed() < most) {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= self.first.saturating_add(self.seeds) {
                    break;
                }
                let outcome = self.run(seed);
                if outcome.broken.is_empty() {
                    done.lock().push(outcome);
                } else {
                    let mut failed = failed.lock();
                    let others = failed.take();
                    let earlier = others.filter(|other| other.seed < seed);
                    *failed = Some(earlier.unwrap_or(outcome));
                }
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(seeds);
            }
        });
        if let Some(outcome) = failed.into_inner() {
            panic!("{}", shrink::story(&outcome, &*self.setup));
        }
        let mut outcomes = done.into_inner();
        outcomes.sort_by_key(|outcome| outcome.seed);
        outcomes
    }
}
