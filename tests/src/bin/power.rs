//! Power cuts by the hundred: `cargo xtask power` builds and starts this. Ends with 1 where something acknowledged was lost, and
//! with 2 where a control lost nothing.

use clap::Parser;
use counterstep_tests::power::{Cuts, DATABASE, Record, Report, SPOOLED};
use std::process::ExitCode;
use std::time::Instant;

/// Cuts of one record at most: a task of it that had not ended is undone once its type's ten minutes are over, and an image is opened
/// by the machine's clock.
const OF_ONE_RECORD: usize = 60;

/// Cut the power of a recorded run at many moments, and open what is left.
#[derive(Debug, Parser)]
#[command(name = "power")]
struct Arguments {
    /// Seed of the moments, and of what is left of what was not synced; of each further record it is one more.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Moments.
    #[arg(long, default_value_t = 300)]
    cuts: usize,
    /// Tasks of a recorded run, of which there is one for each 60 moments.
    #[arg(long, default_value_t = 30)]
    tasks: u64,
}

// One thread starts all processes: a process ends with the thread that has started it.
#[tokio::main]
async fn main() -> ExitCode {
    let Arguments { seed, cuts, tasks } = Arguments::parse();
    let began = Instant::now();
    let own = std::env::current_exe().expect("a program knows its own path");
    let beside = own.with_file_name("beside");
    let mut record = Record::of(&beside, tasks).await;
    let mut report = Report::default();
    for (round, first) in (0..cuts).step_by(OF_ONE_RECORD).enumerate() {
        if round > 0 {
            record = Record::of(&beside, tasks).await;
        }
        println!("{record}, {:.1} s", began.elapsed().as_secs_f64());
        let of_record = Cuts {
            seed: seed + round as u64,
            count: OF_ONE_RECORD.min(cuts - first),
            never_synced: &[],
        };
        report.merge(record.cut(of_record).await);
    }
    println!("{report}, {:.1} s", began.elapsed().as_secs_f64());
    if !report.lost.is_empty() {
        return ExitCode::from(1);
    }
    for never_synced in [DATABASE, SPOOLED] {
        let control = Cuts {
            seed,
            count: 6,
            never_synced,
        };
        let control = record.cut(control).await;
        println!("control, where nothing syncs {never_synced:?}: {control}");
        if control.lost.is_empty() {
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
