//! The API service alone, with the shipped task types.

use clap::Parser;
use counterstep_api::cli::{ApiArgs, main as serve};
use counterstep_node::settings::check_surroundings;
use counterstep_node::{SettingsArgs, exit};
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
    settings: SettingsArgs,
    #[command(flatten)]
    api: ApiArgs,
}

fn main() -> ExitCode {
    // Before the parser, which repeats in its errors what it does not understand.
    let result = check_surroundings().and_then(|()| {
        let cli = Cli::parse();
        serve(counterstep_tasks::tasks(), &cli.settings, &cli.api)
    });
    exit::report("counterstep-api", result)
}
