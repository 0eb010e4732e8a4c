//! The reconciler service alone, with the shipped task types.

use clap::Parser;
use counterstep_node::exit;
use counterstep_node::settings::{SettingsFor, check_surroundings, commands};
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
    settings: SettingsFor<{ commands::RECONCILER }>,
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
