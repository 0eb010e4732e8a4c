//! What goes wrong at its time, and not with a call: processes and machines that end, stand still, or show another time.

use super::choice::Choice;
use super::faults::{FaultId, Trouble};
use super::world::World;
use std::time::Duration;

impl World {
    /// The events of the plan: kills, pauses, stops, outages.
    pub(super) fn plan(&self, processes: usize) -> Vec<Planned> {
        let mut planned = Vec::new();
        let of_machines: &[Trouble] = match self.options.is_one_machine {
            true => &[Trouble::ClockSet, Trouble::Suspend],
            false => &[],
        };
        let of_all = [
            Trouble::Kill,
            Trouble::Pause,
            Trouble::Stop,
            Trouble::Outage,
        ];
        for trouble in of_all.iter().chain(of_machines).copied() {
            for number in 0..self.faults.rate(trouble) {
                let mut choice = Choice::of(self.seed, &format!("{trouble:?} {number}"));
                let id = FaultId((choice.draw() >> 32) as u32);
                let most = self.options.faults_for.as_millis() as u64;
                let lease = self.options.lease.as_millis() as u64;
                // Far enough to end leases, and not so far that a start would be refused.
                let far = choice.within(100, 3_600_000) as i64;
                planned.push(Planned {
                    by_millis: if choice.chance(600) { far } else { -far },
                    id,
                    at: Duration::from_millis(choice.below(most)),
                    trouble,
                    process: choice.below(processes as u64) as usize,
                    lasts: Duration::from_millis(match choice.chance(200) {
                        // Longer than anything is waited for.
                        true => choice.within(lease * 3, lease * 3 + 40_000),
                        false => choice.within(lease / 4, lease * 3),
                    }),
                });
            }
        }
        planned.sort_by_key(|event| (event.at, event.id));
        planned
    }
}

/// An event of the plan.
#[derive(Debug, Clone)]
pub(super) struct Planned {
    pub(super) id: FaultId,
    pub(super) at: Duration,
    pub(super) trouble: Trouble,
    pub(super) process: usize,
    /// How far a calendar is set.
    pub(super) by_millis: i64,
    /// How long the process is gone, or paused.
    pub(super) lasts: Duration,
}
