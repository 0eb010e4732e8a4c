//! The API service alone, with the shipped task types.

use clap::Parser;
use counterstep_api::Beside;
use counterstep_api::cli::main as serve;
use counterstep_node::settings::{SettingsFor, check_surroundings, commands};
use counterstep_node::{exit, step_process};
use std::process::ExitCode;

// Small and short-lived values by the thousand: under load glibc's allocator was a quarter of a
// worker's time.
#[cfg(feature = "servers")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(
    name = "counterstep-api",
    version,
    about = "Takes in distributed tasks over HTTP"
)]
struct Cli {
    #[command(flatten)]
    settings: SettingsFor<{ commands::API }>,
}

fn main() -> ExitCode {
    let tasks = counterstep_tasks::tasks();
    if let Some(ended) = step_process::run_if_asked(&tasks) {
        return ended;
    }
    // Before the parser, which repeats in its errors what it does not understand.
    let result = check_surroundings().and_then(|()| {
        let cli = Cli::parse();
        serve(tasks, &cli.settings, Beside::default())
    });
    exit::report("counterstep-api", result)
}
