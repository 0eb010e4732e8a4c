//! A whole installation from one seed, on one thread and in a time of its own: the engine, its processes and the SQLite adapter
//! are the real ones. What they share is slow, refuses, loses answers; processes are killed, paused and started again; and after
//! each change the invariants are looked at.
//!
//! It says nothing of threads, of power cuts, and of PostgreSQL, NATS, Redis and buckets as they are.

mod choice;
mod clients;
mod ending;
mod executions;
mod executor;
mod faults;
mod ledger;
mod link;
mod machine;
mod objects;
mod people;
mod plan;
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
pub use ending::Ended;
pub use faults::{FaultId, Strike, Trouble};
pub use ledger::{Booking, Ledger};

use crate::form::Form;
use counterstep_contracts::TaskStatus;
use counterstep_kernel::ports::{ServiceAnswer, ServiceError, ServiceRequest};
use counterstep_steps::{DistributedTask, Registry};
use ending::Finally;
use parking_lot::Mutex;
use run::Part;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

type Request = dyn Fn(&mut Choice) -> Form + Send + Sync;

/// What one run is made of: made anew for each.
pub struct Setup {
    registry: Registry,
    older: Option<Registry>,
    request: Box<Request>,
    services: steps::Services,
    ledgers: BTreeMap<&'static str, Ledger>,
    finally: Vec<Box<Finally>>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            registry: Registry::new(),
            older: None,
            request: Box::new(|_| Form::new()),
            services: steps::Services::default(),
            ledgers: BTreeMap::new(),
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

    /// What the program before this one had. In some runs processes begin with it, go over to this one, and back.
    pub fn older(&mut self, registry: Registry) -> &mut Self {
        self.older = Some(registry);
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
        name: &'static str,
        answer: impl Fn(&ServiceRequest) -> Result<ServiceAnswer, ServiceError> + Send + Sync + 'static,
    ) -> &mut Self {
        self.services.0.insert(name, Arc::new(answer));
        self
    }

    /// A service of this name that keeps its keys. In the end of a task that was undone nothing stands there, and of one that has
    /// completed all does.
    pub fn ledger(&mut self, name: &'static str) -> &mut Self {
        let ledger = Ledger::default();
        self.ledgers.insert(name, ledger.clone());
        let answers = ledger.clone();
        self.service(name, move |request| Ok(answers.answer(request)))
            .finally(move |ended| ended.is_booked(name, &ledger))
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
    /// Kinds of faults that had a consequence, and how often.
    pub felt: BTreeMap<Trouble, u64>,
    /// Points that it has reached, and how often.
    pub points: BTreeMap<String, u64>,
    /// What has happened, where that was asked for.
    lines: Vec<String>,
}

/// Seeds of a simulation: they run when [`check`](Self::check) is called.
#[must_use = "nothing runs before `.check(..)`"]
pub struct Simulation {
    setup: Box<dyn Fn(&mut Setup) + Send + Sync>,
    /// Seeds that are run in any case, first.
    kept: Vec<u64>,
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

/// What a client sends: a form, or a function that makes one.
pub trait Input: Send + Sync + 'static {
    /// The next form.
    fn form(&self, choice: &mut Choice) -> Form;
}

impl Input for Form {
    fn form(&self, _: &mut Choice) -> Form {
        self.clone()
    }
}

impl<F: Fn(&mut Choice) -> Form + Send + Sync + 'static> Input for F {
    fn form(&self, choice: &mut Choice) -> Form {
        self(choice)
    }
}

/// Tasks of a type, under all that may go wrong around them.
pub fn simulate<T: DistributedTask>(input: impl Input) -> Simulation {
    let input = Arc::new(input);
    Simulation::of(move |made| {
        let input = input.clone();
        made.types(Registry::new().with::<T>())
            .request(move |choice| input.form(choice));
    })
}

impl Simulation {
    /// Of any task types.
    pub fn of(setup: impl Fn(&mut Setup) + Send + Sync + 'static) -> Self {
        Self {
            setup: Box::new(setup),
            kept: Vec::new(),
            first: 1,
            seeds: 100,
            budget: None,
        }
    }

    /// The same, and then this, for each run.
    fn and(self, then: impl Fn(&mut Setup) + Send + Sync + 'static) -> Self {
        let Self { setup, .. } = self;
        Self {
            setup: Box::new(move |made| {
                setup(made);
                then(made);
            }),
            ..self
        }
    }

    /// All types of a program, with what their steps share: made anew for each seed.
    pub fn types(self, types: impl Fn() -> Registry + Send + Sync + 'static) -> Self {
        self.and(move |made| {
            made.types(types());
        })
    }

    /// A service that steps call, made anew for each seed. Its answers get lost.
    pub fn service<A>(
        self,
        name: &'static str,
        make: impl Fn() -> A + Send + Sync + 'static,
    ) -> Self
    where
        A: Fn(&ServiceRequest) -> Result<ServiceAnswer, ServiceError> + Send + Sync + 'static,
    {
        self.and(move |made| {
            made.service(name, make());
        })
    }

    /// A service that keeps its keys ([`Ledger`]). What stands there in the end is what completed tasks have done.
    pub fn ledger(self, name: &'static str) -> Self {
        self.and(move |made| {
            made.ledger(name);
        })
    }

    /// So many seeds.
    pub fn seeds(self, seeds: u64) -> Self {
        Self { seeds, ..self }
    }

    /// These too, before all others and whatever time that takes: seeds that once broke something, or reach what few do.
    pub fn kept(self, seeds: &[u64]) -> Self {
        Self {
            kept: seeds.to_vec(),
            ..self
        }
    }

    /// From this one on.
    pub fn from(self, first: u64) -> Self {
        Self { first, ..self }
    }

    /// No further seed begins after this time.
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

    /// Runs the seeds, and looks at the end of each: an error says what is wrong. A seed under which something does not hold is made as small as that still shows it, and told as a story.
    ///
    /// # Panics
    /// With that story.
    #[track_caller]
    pub fn check(
        self,
        finally: impl Fn(&Ended) -> Result<(), String> + Send + Sync + 'static,
    ) -> Vec<Outcome> {
        let finally = Arc::new(finally);
        let checked = self.and(move |made| {
            let finally = finally.clone();
            made.finally(move |ended| finally(ended));
        });
        checked.run_all()
    }

    /// The seed at this place.
    fn seed(&self, at: usize) -> Option<u64> {
        match self.kept.get(at) {
            Some(kept) => Some(*kept),
            None => {
                let new = (at - self.kept.len()) as u64;
                (new < self.seeds).then(|| self.first.saturating_add(new))
            }
        }
    }

    #[track_caller]
    fn run_all(&self) -> Vec<Outcome> {
        let began = Instant::now();
        let next = AtomicUsize::new(0);
        let (done, failed) = (Mutex::new(Vec::new()), Mutex::new(None::<Outcome>));
        let seeds = || {
            while failed.lock().is_none() {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let is_in_time = self.budget.is_none_or(|most| began.elapsed() < most);
                let Some(seed) = self.seed(at).filter(|_| is_in_time || at < self.kept.len())
                else {
                    break;
                };
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
