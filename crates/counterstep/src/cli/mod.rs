//! The command line: every role and every operator's command in one program.

mod audit;
mod check_deploy;
mod complete;
mod dead_letter;
mod demo;
mod deploy;
mod derived;
mod describe;
mod dev;
mod doctor;
mod edit;
mod fsck;
mod group;
#[cfg(all(test, feature = "shipped"))]
#[path = "help/tests.rs"]
mod help;
mod ids;
mod keys;
mod log;
mod man;
mod mcp;
#[cfg(feature = "shipped")]
mod new;
mod operator;
mod output;
mod payload_keys;
mod printers;
mod profile;
mod proposal;
mod question;
mod remote;
mod settings;
mod submit;
mod table;
mod tasks;
mod times;
mod trail;
mod types;
mod web;
mod worker;
mod workers;

use crate::program::{OwnCommands, Program};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use counterstep_api::Beside;
#[cfg(test)]
use counterstep_contracts::operation::ALL;
use counterstep_contracts::operation::Declared;
use counterstep_node::nats_rights::User;
use counterstep_node::settings::{SettingsFor, check_surroundings, commands, without_former};
use counterstep_node::{Exit, SettingsArgs, exit, step_process};
use counterstep_operations::Running;
use counterstep_reconciler::cli::ReconcilerArgs;
use counterstep_steps::Registry;
use output::print;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

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
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Zip your own files over real HTTP, in a temporary folder, without any server
    Demo(demo::DemoArgs),
    /// Write a crate of your own: a task type with its tests, and the files that deploy its program
    #[cfg(feature = "shipped")]
    New(new::NewArgs),
    /// Run API, worker and reconciler in one process, on a file and two folders
    Dev(SettingsFor<{ commands::DEV }>),
    /// Run the API service
    Api(SettingsFor<{ commands::API }>),
    /// Run the worker service
    Worker(SettingsFor<{ commands::WORKER }>),
    /// Run the reconciler service
    Reconciler {
        #[command(flatten)]
        settings: SettingsFor<{ commands::RECONCILER }>,
        #[command(flatten)]
        args: ReconcilerArgs,
    },
    /// Bring the schema of the database up to date; the services refuse to start on an older one
    Migrate {
        #[command(flatten)]
        settings: SettingsFor<{ commands::DATABASE_ONLY }>,
        /// Write an SQLite file anew, without what earlier programs have deleted and left readable in it
        #[arg(long)]
        vacuum: bool,
    },
    /// Check that the configured servers meet the requirements; exit with 1 where one does not
    Doctor {
        #[command(flatten)]
        settings: SettingsFor<{ commands::DOCTOR }>,
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Check that PostgreSQL has connections for this many processes [default: those that are
        /// alive]
        #[arg(long)]
        processes: Option<usize>,
        /// Check the rights of this kind of process, with its settings: api, worker or reconciler
        /// [default: by the name of the NATS user]
        #[arg(long, value_name = "ROLE", value_parser = role)]
        role: Option<User>,
    },
    /// Write what follows from the task types into the files that deploy this program
    Deploy(deploy::DeployArgs),
    /// Compare this program's task types with the tasks in flight; exit with 1 where it could not go
    /// on with some
    CheckDeploy(check_deploy::CheckDeployArgs),
    /// Check the chain of every task's audit, and print the ends of the chains
    Audit(audit::AuditArgs),
    /// Check that the rows of every task agree with its journal, and its events with the rules; exit
    /// with 1 where they do not
    Fsck(fsck::FsckArgs),
    /// Make, list and revoke API keys, in the database
    Keys(keys::KeysArgs),
    /// Make, list and delete the keys that payloads are encrypted with, and decrypt archives
    PayloadKeys(payload_keys::PayloadKeysArgs),
    /// Rewrite a settings file of an earlier release
    Settings(settings::SettingsCommand),
    /// Name servers, for `--profile` of the commands that talk to one
    Profile(profile::ProfileArgs),
    /// Print the declared task types: steps, hosts, inputs, policies, undo, and a diagram
    Describe(describe::DescribeArgs),
    /// Submit, watch, list, cancel and settle tasks over the HTTP API
    Tasks(tasks::TasksArgs),
    /// List, save and delete searches for tasks over the HTTP API
    Views(group::Group),
    /// Count parked tasks by cause, and redrive or resolve many of them, over the HTTP API
    DeadLetters(group::Group),
    /// List and count what tasks at rest have done outside and nothing has taken back, over the HTTP API
    Effects(group::Group),
    /// Cancel or run again many tasks, and list, show and stop such operations, over the HTTP API
    Bulk(group::Group),
    /// List and test alerts to operators, and print their secrets, over the HTTP API
    Alerts(group::Group),
    /// List, disable and enable task types over the HTTP API
    Types(group::Group),
    /// List what is paused, disabled, set by hand or open after failures, over the HTTP API
    Gates(group::Group),
    /// List, pause and resume queues over the HTTP API
    Queues(group::Group),
    /// List the breakers of steps, and close one, over the HTTP API
    Breakers(group::Group),
    /// List, set and reset the limits of steps over the HTTP API
    Limits(group::Group),
    /// List, make, pause and run schedules over the HTTP API
    Schedules(group::Group),
    /// List processes, what they run, and how long tasks wait, over the HTTP API
    Workers(group::Group),
    /// Offer the operations of the HTTP API as tools of the Model Context Protocol, over standard input and output
    Mcp(mcp::McpArgs),
    /// Print a script with which a shell completes the commands and flags of this program
    Completions {
        /// The shell
        shell: complete::Shell,
    },
    /// Print what may come next, for the script of a shell
    #[command(hide = true)]
    Complete {
        /// The shell
        shell: complete::Shell,
        /// The words behind the program's name, up to the one that is typed
        #[arg(last = true)]
        words: Vec<String>,
    },
    /// Write a man page of each command of this program
    Man {
        /// The folder
        folder: PathBuf,
    },
}

/// The commands of a program with these task types, with those of these operations: a demonstration is shown where it can run.
fn command(registry: &Registry, operations: &[Declared]) -> clap::Command {
    let has_demo = demo::runs(registry);
    let whole = Cli::command().mut_subcommand("demo", |demo| demo.hide(!has_demo));
    derived::add_to(whole, operations)
}

/// Whether the engine has a command of this name.
pub(crate) fn has_command(name: &str) -> bool {
    name == "help" || Cli::command().find_subcommand(name).is_some()
}

/// The whole program for these task types: the main function of a user's own crate. One with commands,
/// routes or metrics of its own is a [`Program`].
#[must_use]
pub fn main(registry: Registry) -> ExitCode {
    Program::new(registry).main()
}

/// The same, with what stands beside.
pub(crate) fn run(
    registry: Registry,
    beside: Beside,
    own: OwnCommands,
    operations: &'static [Running],
) -> ExitCode {
    if let Some(ended) = step_process::run_if_asked(&registry) {
        return ended;
    }
    // A user's own program has a name of its own.
    let program = std::env::args_os().next().map(PathBuf::from);
    let program = program
        .as_deref()
        .and_then(Path::file_name)
        .and_then(std::ffi::OsStr::to_str);
    let program = program.unwrap_or("counterstep");
    if let Err(exit) = check_surroundings() {
        return exit::report(program, Err(exit));
    }
    let beside = beside.operations(operations);
    let operations: Vec<_> = operations.iter().map(|it| it.declared).collect();
    let whole = own.add_to(command(&registry, &operations));
    let matches = whole
        .clone()
        .try_get_matches()
        .unwrap_or_else(|error| without_former(error).exit());
    if let Some(ended) = own.run(&matches) {
        return exit::report(program, ended);
    }
    if let Some(ended) = derived::run(&operations, &matches, program) {
        return exit::report(program, ended);
    }
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let result = match &cli.command {
        Command::Demo(args) => demo::main(registry, args),
        #[cfg(feature = "shipped")]
        Command::New(args) => new::main(args),
        Command::Dev(settings) => dev::main(registry, settings, beside),
        Command::Api(settings) => counterstep_api::cli::main(registry, settings, beside),
        Command::Worker(settings) => counterstep_worker::cli::main(registry, settings),
        Command::Reconciler { settings, args } => {
            counterstep_reconciler::cli::main(registry, settings, args)
        }
        Command::Doctor {
            settings,
            json,
            processes,
            role,
        } => doctor::main(&registry, settings, *json, *processes, *role),
        Command::CheckDeploy(args) => check_deploy::main(&registry, args),
        Command::Deploy(args) => deploy::main(&registry, args, program),
        Command::Audit(args) => audit::main(args),
        Command::Fsck(args) => fsck::main(&registry, args),
        Command::Keys(args) => keys::main(args),
        Command::PayloadKeys(args) => payload_keys::main(args),
        Command::Migrate { settings, vacuum } => migrate(settings, *vacuum),
        Command::Settings(args) => settings::main(args),
        Command::Profile(args) => profile::main(args),
        Command::Describe(args) => describe::main(&registry, args),
        Command::Tasks(args) => tasks::main(args),
        Command::Mcp(args) => mcp::main(args, operations),
        // Their commands are those of declared operations.
        Command::Alerts(_)
        | Command::DeadLetters(_)
        | Command::Effects(_)
        | Command::Bulk(_)
        | Command::Schedules(_)
        | Command::Types(_)
        | Command::Workers(_)
        | Command::Gates(_)
        | Command::Queues(_)
        | Command::Breakers(_)
        | Command::Limits(_)
        | Command::Views(_) => Err(Exit::usage("expected a command")),
        Command::Completions { shell } => print(&complete::script(*shell, program)),
        Command::Complete { shell, words } => print(&complete::answer(*shell, whole, words)),
        Command::Man { folder } => man::main(whole, program, folder),
    };
    exit::report(program, result)
}

fn role(text: &str) -> Result<User, String> {
    let mut users = [User::Api, User::Worker, User::Reconciler].into_iter();
    let found = users.find(|user| user.as_str() == text);
    found.ok_or_else(|| "expected `api`, `worker` or `reconciler`".to_owned())
}

fn migrate(settings: &SettingsArgs, vacuums: bool) -> Result<(), Exit> {
    let settings = settings.read()?.resolve()?;
    counterstep_node::run(
        &settings,
        Box::pin(async {
            counterstep_node::migrate(&settings, vacuums).await?;
            print(&format!(
                "the schema of {} is up to date\n",
                settings.database
            ))
        }),
    )
}

#[cfg(test)]
mod tests;
