//! The reconciler service alone, with the shipped task types.

use clap::Parser;
use counterstep_node::{SettingsArgs, exit};
use counterstep_reconciler::cli::{ReconcilerArgs, main as serve};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "counterstep-reconciler", version, about = "Recovers lost tasks and sweeps orphans, like cron")]
struct Cli {
    #[command(flatten)]
    settings: SettingsArgs,
    #[command(flatten)]
    reconciler: ReconcilerArgs,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    exit::report("counterstep-reconciler", serve(counterstep_tasks::tasks(), &cli.settings, &cli.reconciler))
}
