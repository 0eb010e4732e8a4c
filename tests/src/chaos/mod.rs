//! A chaos run: services on real servers under load while faults strike, and a verdict on every
//! task afterwards.
//!
//! The seed decides which fault strikes when and what the clients submit; the interleaving is the
//! machine's. A run is void where a kind of fault left no evidence that it happened.

mod clients;
pub mod failover;
mod faults;
mod fleet;
mod history;
mod judged;
mod soak;
mod strikes;
mod verdict;

use crate::sample::Chance;
use clients::Clients;
use faults::{Disk, Faults, FullUntil};
pub use faults::{KILL_LEADER, OF_NATS_CLUSTER};
use fleet::Fleet;
pub use history::Compared;
use history::Excepted;
use soak::{ENDED_KEPT, Sampler};
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
    /// Number of an API process that may read from a server that was left behind: what it shows may be old, and a task that it
    /// does not know is asked for again.
    pub left_behind: Option<usize>,
    /// Where the samples of a soak go.
    pub samples: Option<PathBuf>,
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
    /// How much of what clients saw was compared.
    pub compared: Compared,
    /// How memory, descriptors, rows and files of a soak went.
    pub went: Vec<String>,
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
        let Compared {
            tasks,
            reads,
            pairs,
            accepted,
            refused,
        } = self.compared;
        writeln!(
            f,
            "  histories of {tasks} tasks: {reads} reads, {pairs} pairs of them one after the other; {accepted} changes \
             accepted, {refused} refused"
        )?;
        for series in &self.went {
            writeln!(f, "  soak  {series}")?;
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
    let sampler = (options.strikes == Strikes::Soak).then(|| Sampler::start(&fleet));
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
    // Before the load ends: without it everything shrinks.
    let samples = sampler.map(Sampler::stop);
    let load = clients.stop().await;
    let excepted = Excepted {
        left_behind: options.left_behind,
        deleted_after: samples.is_some().then_some(ENDED_KEPT),
    };
    let mut report = verdict::of(fleet, faults, load, (options.strikes, excepted)).await;
    if let Some(samples) = samples {
        let (went, leaks) = samples.verdict();
        report.went = went;
        report.anomalies.extend(leaks);
        if let Some(folder) = &options.samples {
            let written = samples.write(folder);
            written.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        }
    }
    report
}
