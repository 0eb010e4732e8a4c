//! Tasks a second of this workspace on this machine, beside what the database and the disk
//! themselves can do.

mod cost;
#[cfg(test)]
mod counted;
mod engine;
mod failed;
mod limits;
mod load;
mod measure;
mod mode;
mod report;
mod services;
mod work;

use clap::Parser;
use counterstep_api::Beside;
use counterstep_node::settings::{SettingsFor, commands};
use counterstep_node::{Exit, Settings, exit};
use counterstep_reconciler::cli::ReconcilerArgs;
use failed::Failed;
use mode::Mode;
use std::io::Write;
use std::process::ExitCode;

// As in the programs that are measured.
#[cfg(not(test))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A service that this program starts as a process of its own.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Role {
    Api,
    Worker,
    Reconciler,
}

/// Measure tasks a second, with private servers that are started and stopped for it.
#[derive(Debug, Clone, Parser)]
#[command(name = "counterstep-bench")]
struct Bench {
    #[command(flatten)]
    settings: SettingsFor<{ commands::DEV }>,
    /// Tasks in flight, one measurement for each
    #[arg(long, value_delimiter = ',', default_values_t = [1, 50, 200, 1000])]
    in_flight: Vec<u16>,
    /// How long each measurement lasts, after two seconds to warm up
    #[arg(long, default_value = "10s")]
    duration: String,
    /// Labels of each task that is submitted over HTTP
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=16))]
    labels: u8,
    /// What to measure
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Mode::Http, Mode::Failing, Mode::Engine, Mode::Embedded])]
    modes: Vec<Mode>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Serve as this service: what this program starts itself
    #[arg(long, hide = true, value_enum)]
    role: Option<Role>,
}

fn main() -> ExitCode {
    exit::report("counterstep-bench", run(&Bench::parse()))
}

fn run(bench: &Bench) -> Result<(), Exit> {
    if let Some(role) = bench.role {
        let (registry, settings) = (work::registry(), &bench.settings);
        return match role {
            Role::Api => counterstep_api::cli::main(registry, settings, Beside::default()),
            Role::Worker => counterstep_worker::cli::main(registry, settings),
            Role::Reconciler => {
                counterstep_reconciler::cli::main(registry, settings, &ReconcilerArgs::default())
            }
        };
    }
    let duration = counterstep_node::settings::duration("duration", &bench.duration)?;
    counterstep_node::install_provider();
    let folder = tempfile::tempdir()
        .map_err(|error| Exit::failed(format_args!("no temporary folder: {error}")))?;
    let own = Settings {
        log: "error".to_owned(),
        ..Settings::in_folder(folder.path())
    };
    let plan = measure::Plan {
        modes: bench.modes.clone(),
        in_flight: bench.in_flight.clone(),
        duration,
        labels: bench.labels,
        own,
    };
    counterstep_node::run(
        &plan.own,
        Box::pin(async {
            let report = measure::all(&plan)
                .await
                .map_err(|Failed(why)| Exit::failed(why))?;
            let text = if bench.json {
                report.json().map_err(Exit::failed)?
            } else {
                report.text()
            };
            std::io::stdout()
                .write_all(text.as_bytes())
                .map_err(Exit::failed)
        }),
    )
}
