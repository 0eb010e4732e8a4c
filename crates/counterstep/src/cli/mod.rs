//! The command line: every role and every operator's command in one program.

mod demo;
mod describe;
mod dev;
mod remote;
mod table;
mod tasks;

use clap::{Parser, Subcommand};
use counterstep_kernel::Registry;
use counterstep_node::settings::check_surroundings;
use counterstep_node::{Exit, SettingsArgs, exit};
use counterstep_reconciler::cli::ReconcilerArgs;
use counterstep_worker::cli::WorkerArgs;
use std::process::ExitCode;

#[derive(Debug, Parser)]
#[command(name = "counterstep", version, about = "Distributed tasks that finish or are undone", max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    settings: SettingsArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Shows the main job on your own files: zips them over real HTTP, in a temporary folder, without any server
    Demo(demo::DemoArgs),
    /// Runs API, worker and reconciler in one process, on a file and two folders
    Dev(dev::DevArgs),
    /// Runs the API service
    Api(counterstep_api::cli::ApiArgs),
    /// Runs the worker service
    Worker(WorkerArgs),
    /// Runs the reconciler service
    Reconciler(ReconcilerArgs),
    /// Prints the declared task types: steps, hosts, inputs, policies, undo, and a diagram
    Describe(describe::DescribeArgs),
    /// Looks at tasks, and cancels them, over the HTTP API
    Tasks(tasks::TasksArgs),
}

/// The whole program for these task types: the main function of a user's own crate.
#[must_use]
pub fn main(registry: Registry) -> ExitCode {
    let program = "counterstep";
    if let Err(exit) = check_surroundings() {
        return exit::report(program, Err(exit));
    }
    let cli = Cli::parse();
    let result = match &cli.command {
        Command::Demo(args) => demo::main(registry, args),
        Command::Dev(args) => dev::main(registry, &cli.settings, args),
        Command::Api(args) => counterstep_api::cli::main(registry, &cli.settings, args),
        Command::Worker(args) => counterstep_worker::cli::main(registry, &cli.settings, args),
        Command::Reconciler(args) => counterstep_reconciler::cli::main(registry, &cli.settings, args),
        Command::Describe(args) => describe::main(&registry, args),
        Command::Tasks(args) => tasks::main(args),
    };
    exit::report(program, result)
}

/// Prints to standard output; a reader that went away (`| head`) is no error.
fn print(text: &str) -> Result<(), Exit> {
    use std::io::Write as _;
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Exit::failed(format_args!("standard output cannot be written: {error}")))
        }
        _ => Ok(()),
    }
}
