//! A chaos run: services on real servers under load while faults strike, and a verdict on every
//! task afterwards.
//!
//! The seed decides which fault strikes when and what the clients submit; the interleaving is the
//! machine's. A run is void where a kind of fault left no evidence that it happened.

mod clients;
pub mod failover;
mod faults;
mod fleet;
mod judged;
mod strikes;
mod verdict;

use crate::sample::Chance;
use clients::Clients;
use faults::{Disk, Faults, FullUntil};
pub use faults::{KILL_LEADER, OF_NATS_CLUSTER};
use fleet::Fleet;
use std::path::PathBuf;
use std::time::{Duration, Instant};
pub use strikes::Strikes;
pub(crate) use verdict::text_of;

/// What a run is asked for.
#[derive(Debug, Clone)]
pub struct Options {
    /// Of the order of faults and of what is submitted.
    pub seed: u64,
    /// How long faults strike.
    pub length: Duration,
    /// Clients at a time, each with one task in flight.
    pub clients: u64,
    /// A small file system of its own, which the run may fill. `None`: the disk is never full.
    pub disk: Option<PathBuf>,
    /// Which faults strike.
    pub strikes: Strikes,
    /// Some processes may read from a server that was left behind: a task that such a one does not know is asked for again.
    pub old_reads: bool,
}

/// What a run has shown.
#[derive(Debug, Default)]
pub struct Report {
    /// Each kind of fault with how often it struck.
    pub faults: Vec<(&'static str, u32)>,
    /// How many tasks ended in each state.
    pub ended: Vec<(String, usize)>,
    /// How many tasks lost the process that ran them.
    pub in_doubt: usize,
    /// How long tasks waited for a host, the shortest first.
    pub waits: Vec<Duration>,
    /// How long clients waited for the answer to a submission that was accepted, likewise.
    pub answers: Vec<Duration>,
    /// What contradicts a promise. Empty: the run has found nothing.
    pub anomalies: Vec<String>,
    /// Kinds of faults without evidence. Not empty: the run proves nothing.
    pub void: Vec<String>,
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sum: u32 = self.faults.iter().map(|(_, count)| count).sum();
        let tasks: usize = self.ended.iter().map(|(_, count)| count).sum();
        writeln!(
            f,
            "{tasks} tasks, {sum} faults, {} tasks lost their process",
            self.in_doubt
        )?;
        for (fault, count) in &self.faults {
            writeln!(f, "  fault  {fault}: {count}")?;
        }
        for (status, count) in &self.ended {
            writeln!(f, "  ended  {status}: {count}")?;
        }
        for (what, sorted) in [
            ("waited for a host", &self.waits),
            ("waited for an answer", &self.answers),
        ] {
            let at = |share: usize| sorted.get(sorted.len() * share / 1_000);
            if let (Some(half), Some(most), Some(longest)) = (at(500), at(990), sorted.last()) {
                writeln!(
                    f,
                    "  {what}: half {half:.1?}, 99 of 100 {most:.1?}, longest {longest:.1?}"
                )?;
            }
        }
        for anomaly in &self.anomalies {
            writeln!(f, "  ANOMALY  {anomaly}")?;
        }
        for kind in &self.void {
            writeln!(f, "  VOID  no evidence of: {kind}")?;
        }
        write!(f, "{} anomalies", self.anomalies.len())
    }
}

/// Runs it to its end. Call it on the main thread: the processes that it starts die with the thread
/// that starts them.
///
/// # Panics
/// When the servers do not start, or come back after a fault.
pub async fn run(options: &Options) -> Report {
    let mut chance = Chance::new(options.seed);
    let mut fleet = Fleet::start(options.strikes).await;
    let full_until = FullUntil::default();
    let clients = Clients::start(&fleet, options, &full_until);
    let disk = |folder| Disk::new(folder, full_until.clone());
    let mut faults = Faults::new(options.strikes, options.disk.clone().map(disk));
    let began = Instant::now();
    while began.elapsed() < options.length {
        // Not a wait for anything: it chooses the moment.
        tokio::time::sleep(options.strikes.pause(&mut chance)).await;
        let kind = faults.draw(&mut chance);
        println!("{:>6.1} s  {kind}", began.elapsed().as_secs_f64());
        faults.strike(kind, &mut fleet, &mut chance).await;
    }
    println!(
        "{:>6.1} s  no further faults; the tasks in flight come to rest",
        began.elapsed().as_secs_f64()
    );
    for kind in faults.left_out() {
        println!("left out: {kind}; this machine does not allow it");
    }
    let submitted = clients.stop().await;
    verdict::of(fleet, faults, submitted, options.strikes).await
}
