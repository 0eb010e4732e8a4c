//! The reconciler service alone, with the shipped task types.

use clap::Parser;
use counterstep_node::settings::check_surroundings;
use counterstep_node::{SettingsArgs, exit};
use counterstep_reconciler::cli::{ReconcilerArgs, main as serve};
use std::process::ExitCode;

#[derive(Parser)]
#[command(
    name = "counterstep-reconciler",
    version,
    about = "Recovers lost tasks and sweeps orphans, like cron"
)]
struct Cli {
    #[command(flatten)]
    settings: SettingsArgs,
    #[command(flatten)]
    reconciler: ReconcilerArgs,
}

fn main() -> ExitCode {
    // Before the parser, which repeats in its errors what it does not understand.
    let result = check_surroundings().and_then(|()| {
        let cli = Cli::parse();
        serve(counterstep_tasks::tasks(), &cli.settings, &cli.reconciler)
    });
    exit::report("counterstep-reconciler", result)
}
