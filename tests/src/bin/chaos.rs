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
    /// Minutes for which faults strike: 10, or 60 of a soak.
    #[arg(long)]
    minutes: Option<u64>,
    /// Clients, each with one task in flight: 16, or 4 of a soak.
    #[arg(long)]
    clients: Option<u64>,
    /// Look whether memory, descriptors, rows and files grow, while ended tasks are deleted and faults are few.
    #[arg(long, conflicts_with = "nats_cluster")]
    soak: bool,
    /// Folder for the samples of a soak, `soak.csv` and `soak.svg`; `target/soak` without it.
    #[arg(long, requires = "soak")]
    samples: Option<PathBuf>,
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
    let (strikes, minutes, clients) = match (arguments.nats_cluster, arguments.soak) {
        (true, _) => (Strikes::NatsCluster(OF_NATS_CLUSTER), 10, 16),
        (false, true) => (Strikes::Soak, 60, 4),
        (false, false) => (Strikes::All, 10, 16),
    };
    let minutes = arguments.minutes.unwrap_or(minutes);
    let samples = arguments.samples;
    let options = Options {
        seed: arguments.seed,
        length: Duration::from_secs(minutes * 60),
        clients: arguments.clients.unwrap_or(clients),
        disk: arguments.disk,
        strikes,
        left_behind: None,
        samples: arguments
            .soak
            .then(|| samples.unwrap_or_else(|| program::target_folder().join("soak"))),
    };
    println!(
        "chaos: seed {}, {minutes} minutes, {} clients",
        options.seed, options.clients
    );
    let report = run(&options).await;
    println!("{report}");
    if let Some(folder) = &options.samples {
        println!("samples: soak.csv and soak.svg in {}", folder.display());
    }
    match (report.anomalies.is_empty(), report.void.is_empty()) {
        (true, true) => ExitCode::SUCCESS,
        (false, _) => ExitCode::from(1),
        (true, false) => ExitCode::from(2),
    }
}
