//! Power cuts by the hundred: `cargo xtask power` builds and starts this. Ends with 1 where something acknowledged was lost, and
//! with 2 where a control lost nothing.

use clap::Parser;
use counterstep_tests::power::{Cuts, DATABASE, Record, SPOOLED};
use std::process::ExitCode;
use std::time::Instant;

/// Cut the power of a recorded run at many moments, and open what is left.
#[derive(Debug, Parser)]
#[command(name = "power")]
struct Arguments {
    /// Seed of the moments, and of what is left of what was not synced.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Moments.
    #[arg(long, default_value_t = 300)]
    cuts: usize,
    /// Tasks of the recorded run.
    #[arg(long, default_value_t = 30)]
    tasks: u64,
}

// One thread starts all processes: a process ends with the thread that has started it.
#[tokio::main]
async fn main() -> ExitCode {
    let Arguments { seed, cuts, tasks } = Arguments::parse();
    let began = Instant::now();
    let own = std::env::current_exe().expect("a program knows its own path");
    let record = Record::of(&own.with_file_name("beside"), tasks).await;
    println!("{record}, {:.1} s", began.elapsed().as_secs_f64());
    let cut = |count, never_synced| {
        record.cut(Cuts {
            seed,
            count,
            never_synced,
        })
    };
    let report = cut(cuts, &[]).await;
    println!("{report}, {:.1} s", began.elapsed().as_secs_f64());
    if !report.lost.is_empty() {
        return ExitCode::from(1);
    }
    for never_synced in [DATABASE, SPOOLED] {
        let control = cut(6, never_synced).await;
        println!("control, where nothing syncs {never_synced:?}: {control}");
        if control.lost.is_empty() {
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
