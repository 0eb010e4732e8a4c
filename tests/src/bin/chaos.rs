//! A chaos run of the services: `cargo xtask chaos` starts it with a small disk of its own. Ends
//! with 1 where it has found an anomaly, and with 2 where a fault left no evidence.

use clap::Parser;
use counterstep_tests::chaos::{OF_NATS_CLUSTER, Options, Strikes, run};
use counterstep_tests::program;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Run tasks on real servers while faults strike, then check every promise on every task.
#[derive(Debug, Parser)]
#[command(name = "chaos")]
struct Arguments {
    /// Seed of the faults and of the load.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Minutes for which faults strike.
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// Clients, each with one task in flight.
    #[arg(long, default_value_t = 16)]
    clients: u64,
    /// Mounted file system of at least 2 GiB that the run may fill. Without it the disk is never
    /// full.
    #[arg(long)]
    disk: Option<PathBuf>,
    /// Let the faults be those of three NATS servers that are one cluster.
    #[arg(long)]
    nats_cluster: bool,
    /// Program under test, instead of the one built from this tree.
    #[arg(long)]
    program: Option<PathBuf>,
}

// One runtime whose main thread starts all processes: a process ends with the thread that has
// started it.
#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(path) = arguments.program {
        program::choose(path);
    }
    let options = Options {
        seed: arguments.seed,
        length: Duration::from_secs(arguments.minutes * 60),
        clients: arguments.clients,
        disk: arguments.disk,
        strikes: if arguments.nats_cluster {
            Strikes::NatsCluster(OF_NATS_CLUSTER)
        } else {
            Strikes::All
        },
        old_reads: false,
    };
    println!(
        "chaos: seed {}, {} minutes, {} clients",
        options.seed, arguments.minutes, options.clients
    );
    let report = run(&options).await;
    println!("{report}");
    match (report.anomalies.is_empty(), report.void.is_empty()) {
        (true, true) => ExitCode::SUCCESS,
        (false, _) => ExitCode::from(1),
        (true, false) => ExitCode::from(2),
    }
}
