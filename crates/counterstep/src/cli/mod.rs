//! The command line: every role and every operator's command in one program.

mod audit;
mod check_deploy;
mod demo;
mod describe;
mod dev;
mod fsck;
mod operator;
mod proposal;
mod remote;
mod schedules;
mod table;
mod tasks;
mod times;
mod types;
mod workers;

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use counterstep_node::settings::check_surroundings;
use counterstep_node::{Exit, SettingsArgs, exit};
use counterstep_reconciler::cli::ReconcilerArgs;
use counterstep_steps::Registry;
use counterstep_worker::cli::WorkerArgs;
use std::process::ExitCode;

/// Where the API of the operator's commands is, unless they are told otherwise.
const USUAL_URL: &str = "http://127.0.0.1:8080";

/// The release, and the commit that it was built from as far as the build knows it.
const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (",
    env!("BUILT_FROM_COMMIT"),
    ")"
);

#[derive(Debug, Parser)]
#[command(name = "counterstep", version = VERSION, about = "Distributed tasks that finish or are undone", max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    settings: SettingsArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Shows the main job on your own files: zips them over real HTTP, in a temporary folder,
    /// without any server
    Demo(demo::DemoArgs),
    /// Runs API, worker and reconciler in one process, on a file and two folders
    Dev(dev::DevArgs),
    /// Runs the API service
    Api(counterstep_api::cli::ApiArgs),
    /// Runs the worker service
    Worker(WorkerArgs),
    /// Runs the reconciler service
    Reconciler(ReconcilerArgs),
    /// Brings the schema of the database up to date; the services refuse to start on an older one
    Migrate,
    /// Says which promises the configured servers cannot keep; exits 1 where there are any
    Doctor {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Check that PostgreSQL has connections for so many processes [default: those that are
        /// alive]
        #[arg(long)]
        processes: Option<usize>,
    },
    /// Compares this program's task types with the tasks in flight; exits 1 where it could not go
    /// on with some
    CheckDeploy(check_deploy::CheckDeployArgs),
    /// Checks the chain of every task's audit, and prints the ends of the chains
    Audit(audit::AuditArgs),
    /// Checks that the rows of every task agree with its journal, and its events with the rules;
    /// exits 1 where they do not
    Fsck(fsck::FsckArgs),
    /// Prints the declared task types: steps, hosts, inputs, policies, undo, and a diagram
    Describe(describe::DescribeArgs),
    /// Looks at tasks, cancels them, and settles those that wait for a person, over the HTTP API
    Tasks(tasks::TasksArgs),
    /// Looks at task types, and disables and enables them, over the HTTP API
    Types(types::TypesArgs),
    /// Looks at schedules, makes, pauses and runs them, over the HTTP API
    Schedules(schedules::SchedulesArgs),
    /// Says which processes are there, what they run, and how long tasks wait, over the HTTP API
    Workers(workers::WorkersArgs),
    /// Prints a script with which a shell completes the commands and flags of this program
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// The whole program for these task types: the main function of a user's own crate.
#[must_use]
pub fn main(registry: Registry) -> ExitCode {
    // A user's own program has a name of its own.
    let program = std::env::args_os().next().map(std::path::PathBuf::from);
    let program = program
        .as_deref()
        .and_then(std::path::Path::file_name)
        .and_then(std::ffi::OsStr::to_str);
    let program = program.unwrap_or("counterstep");
    if let Err(exit) = check_surroundings() {
        return exit::report(program, Err(exit));
    }
    let matches = Cli::command().get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let result = match &cli.command {
        Command::Demo(args) => {
            takes_no_settings(&matches).and_then(|()| demo::main(registry, args))
        }
        Command::Dev(args) => dev::main(registry, &cli.settings, args),
        Command::Api(args) => counterstep_api::cli::main(registry, &cli.settings, args),
        Command::Worker(args) => counterstep_worker::cli::main(registry, &cli.settings, args),
        Command::Reconciler(args) => {
            counterstep_reconciler::cli::main(registry, &cli.settings, args)
        }
        Command::Doctor { json, processes } => doctor(&registry, &cli.settings, *json, *processes),
        Command::CheckDeploy(args) => check_deploy::main(&registry, &cli.settings, args),
        Command::Audit(args) => audit::main(&cli.settings, args),
        Command::Fsck(args) => fsck::main(&registry, &cli.settings, args),
        Command::Migrate => migrate(&cli.settings),
        Command::Describe(args) => cli
            .settings
            .policies(&registry)
            .and_then(|set| describe::main(&registry, &set, args)),
        Command::Tasks(args) => tasks::main(args, program),
        Command::Types(args) => types::main(args),
        Command::Schedules(args) => schedules::main(args),
        Command::Workers(args) => workers::main(args),
        Command::Completions { shell } => {
            // Not to standard output at once: `generate` panics on a closed pipe.
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), program, &mut script);
            print(&String::from_utf8_lossy(&script))
        }
    };
    exit::report(program, result)
}

fn doctor(
    registry: &Registry,
    settings: &SettingsArgs,
    json: bool,
    processes: Option<usize>,
) -> Result<(), Exit> {
    let settings = settings.resolve()?;
    counterstep_node::run(
        &settings,
        Box::pin(async {
            let found = counterstep_node::doctor::examine(&settings, registry, processes).await?;
            if json {
                print(&(serde_json::to_string_pretty(&found).map_err(Exit::failed)? + "\n"))?;
            } else {
                for finding in &found {
                    let counterstep_node::doctor::Finding {
                        code,
                        what,
                        why,
                        to_do,
                    } = finding;
                    print(&format!(
                        "{code}: {what}\n  why it matters: {why}\n  what to do: {to_do}\n"
                    ))?;
                }
            }
            match found.len() {
                0 => print(if json { "" } else { "Nothing was found\n" }),
                1 => Err(Exit::failed("1 finding")),
                count => Err(Exit::failed(format_args!("{count} findings"))),
            }
        }),
    )
}

fn migrate(settings: &SettingsArgs) -> Result<(), Exit> {
    let settings = settings.resolve()?;
    counterstep_node::run(
        &settings,
        Box::pin(async {
            counterstep_node::migrate(&settings).await?;
            print(&format!(
                "the schema of {} is up to date\n",
                settings.database
            ))
        }),
    )
}

/// The demonstration has settings of its own: a flag that it would ignore is refused.
fn takes_no_settings(matches: &ArgMatches) -> Result<(), Exit> {
    let Some((_, demo)) = matches.subcommand() else {
        return Ok(());
    };
    let shared = <SettingsArgs as clap::Args>::augment_args(clap::Command::new("settings"));
    let flags = shared
        .get_arguments()
        .map(|flag| flag.get_id().as_str().to_owned());
    // What it does take.
    let mut flags =
        flags.filter(|flag| !["log", "log_format", "plant_fault"].contains(&flag.as_str()));
    match flags.find(|flag| demo.value_source(flag) == Some(ValueSource::CommandLine)) {
        None => Ok(()),
        Some(flag) => Err(Exit::config(format_args!(
            "`demo` runs in a temporary folder with settings of its own and takes no --{}: see `dev`",
            flag.replace('_', "-")
        ))),
    }
}

/// Prints to standard output; a reader that went away (`| head`) is no error.
fn print(text: &str) -> Result<(), Exit> {
    use std::io::Write as _;
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Exit::failed(
            format_args!("standard output cannot be written: {error}"),
        )),
        _ => Ok(()),
    }
}
