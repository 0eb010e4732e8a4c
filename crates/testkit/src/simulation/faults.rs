//! The faults of a run as data. Each strikes at a place that can be named again: the n-th call of a kind by a process, or an
//! event of the plan. So a run can be repeated with some of its faults only.

use super::choice::Choice;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

/// Names a fault of a seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FaultId(pub(super) u32);

impl fmt::Display for FaultId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

/// What goes wrong with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trouble {
    /// The database refuses: nothing was done.
    StoreRefuses,
    /// The database did it, and its answer was lost.
    StoreDone,
    /// The database did not do it, and its answer was lost.
    StoreNotDone,
    /// Its answer was lost, and it does it later.
    StoreLater,
    /// The database is slow.
    StoreSlow,
    /// The broker takes no message.
    QueueRefuses,
    /// A message was taken, and is lost.
    QueueLoses,
    /// A message was taken, and its answer was lost.
    QueueDone,
    /// A message is delivered twice.
    QueueTwice,
    /// A message comes late.
    QueueLate,
    /// A signal is lost.
    SignalLost,
    /// Locks and hints do not answer.
    LocksAway,
    /// The object store refuses: nothing was done.
    ObjectsRefuse,
    /// The object store did it, and its answer was lost.
    ObjectsDone,
    /// The object store is slow.
    ObjectsSlow,
    /// A service was not reached.
    ServiceAway,
    /// A service did it, and its answer was lost.
    ServiceDone,
    /// A step takes long.
    StepSlow,
    /// A step takes its process along, as one that needs too much memory.
    StepKills,
    /// A process is killed.
    Kill,
    /// A process is stopped for a while, and goes on.
    Pause,
    /// A process ends in order, and another one starts.
    Stop,
    /// The database answers no process.
    Outage,
    /// A message is delivered that no process can read.
    QueueGarbles,
    /// The calendar of the machine is set forward, or back.
    ClockSet,
    /// The machine stands still, with all that is on it.
    Suspend,
}

impl Trouble {
    /// Every kind.
    pub const ALL: [Self; 26] = [
        Self::StoreRefuses,
        Self::StoreDone,
        Self::StoreNotDone,
        Self::StoreLater,
        Self::StoreSlow,
        Self::QueueRefuses,
        Self::QueueLoses,
        Self::QueueDone,
        Self::QueueTwice,
        Self::QueueLate,
        Self::SignalLost,
        Self::LocksAway,
        Self::ObjectsRefuse,
        Self::ObjectsDone,
        Self::ObjectsSlow,
        Self::ServiceAway,
        Self::ServiceDone,
        Self::StepSlow,
        Self::StepKills,
        Self::Kill,
        Self::Pause,
        Self::Stop,
        Self::Outage,
        Self::QueueGarbles,
        Self::ClockSet,
        Self::Suspend,
    ];

    /// How often it strikes where it is on, of 1,000 calls; of an event of the plan: how many there are, at most.
    const fn most(self) -> u64 {
        match self {
            Self::StoreRefuses | Self::StoreSlow | Self::LocksAway | Self::ObjectsSlow => 60,
            Self::StoreDone | Self::StoreNotDone | Self::StoreLater => 80,
            Self::QueueRefuses | Self::QueueDone | Self::QueueTwice | Self::QueueLate => 150,
            Self::QueueLoses => 300,
            Self::SignalLost => 800,
            Self::ObjectsRefuse | Self::ObjectsDone | Self::ServiceAway | Self::ServiceDone => 150,
            Self::StepSlow | Self::StepKills => 200,
            Self::Kill | Self::Pause => 6,
            Self::Stop | Self::Outage | Self::Suspend => 2,
            Self::QueueGarbles => 60,
            Self::ClockSet => 4,
        }
    }
}

/// A fault that has struck.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Strike {
    /// Its name in this seed.
    pub id: FaultId,
    /// Since the start.
    pub at: Duration,
    /// What went wrong.
    pub trouble: Trouble,
    /// Where, as a person reads it.
    pub place: String,
}

/// Which kinds are on in a run, how often they strike, and which have struck.
#[derive(Debug)]
pub(super) struct Faults {
    seed: u64,
    rates: BTreeMap<Trouble, u64>,
    /// Only these; `None`: all.
    only: Option<BTreeSet<FaultId>>,
    struck: Mutex<Vec<Strike>>,
}

impl Faults {
    /// Of a seed: each kind is on or off. `only`: of all that would strike, these.
    pub(super) fn of(seed: u64, only: Option<BTreeSet<FaultId>>) -> Self {
        let mut choice = Choice::of(seed, "which faults");
        // One run in ten has none: what goes wrong there needs no fault.
        let quiet = choice.chance(100);
        let mut rates = BTreeMap::new();
        for trouble in Trouble::ALL {
            let (is_on, rate) = (choice.chance(450), choice.within(1, trouble.most()));
            if is_on && !quiet {
                rates.insert(trouble, rate);
            }
        }
        Self {
            seed,
            rates,
            only,
            struck: Mutex::default(),
        }
    }

    /// How often it strikes; 0: it is off.
    pub(super) fn rate(&self, trouble: Trouble) -> u64 {
        self.rates.get(&trouble).copied().unwrap_or_default()
    }

    pub(super) fn rates(&self) -> &BTreeMap<Trouble, u64> {
        &self.rates
    }

    /// Whether one of these strikes at a place, and what the fault then draws from.
    pub(super) fn strike(
        &self,
        at: Duration,
        place: &str,
        troubles: &[Trouble],
    ) -> Option<(Trouble, Choice)> {
        let mut choice = Choice::of(self.seed, place);
        let id = FaultId(u32::try_from(choice.draw() >> 32).unwrap_or_default());
        let strikes = |trouble: &&Trouble| choice.chance(self.rate(**trouble));
        let trouble = *troubles.iter().find(strikes)?;
        self.planned(id, at, trouble, place)
            .then_some((trouble, choice))
    }

    /// The same of an event of the plan, which strikes if it may.
    pub(super) fn planned(&self, id: FaultId, at: Duration, trouble: Trouble, place: &str) -> bool {
        if self.only.as_ref().is_some_and(|only| !only.contains(&id)) {
            return false;
        }
        let place = place.to_owned();
        self.struck.lock().push(Strike {
            id,
            at,
            trouble,
            place,
        });
        true
    }

    pub(super) fn struck(&self) -> Vec<Strike> {
        self.struck.lock().clone()
    }
}
