//! The worker service alone, with the shipped task types.

use clap::Parser;
use counterstep_node::{SettingsArgs, exit};
use counterstep_worker::cli::{WorkerArgs, main as serve};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "counterstep-worker", version, about = "Runs the worker steps of distributed tasks")]
struct Cli {
    #[command(flatten)]
    settings: SettingsArgs,
    #[command(flatten)]
    worker: WorkerArgs,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    exit::report("counterstep-worker", serve(counterstep_tasks::tasks(), &cli.settings, &cli.worker))
}
