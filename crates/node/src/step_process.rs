//! Processes of steps (`isolate = "process"`): this program, started once more for one attempt.

use crate::exit::Exit;
use crate::logging;
use crate::panics;
use crate::settings::{LogFormat, Settings};
use counterstep_adapters::folder::FolderScratch;
use counterstep_adapters::step_processes::{self, ChildProcesses, LogSettings};
use counterstep_contracts::Host;
use counterstep_steps::Registry;
use std::process::ExitCode;

pub use counterstep_adapters::step_processes::{Protection, hide_memory, is_prepared};

/// Where this process was started for a step, runs that, and gives the code to end with. Else `None`, and this
/// process may start others for steps. To be called in `main` before all but what makes the registry: the
/// process of a step and its supervisor run `main` up to here, without arguments, with few variables of the environment
/// (`step_env`), and the step with few files (`step_paths`).
#[must_use]
pub fn run_if_asked(registry: &Registry) -> Option<ExitCode> {
    let start_log = |log: &LogSettings| {
        let format = if log.json {
            LogFormat::Json
        } else {
            LogFormat::Text
        };
        logging::start(&log.filter, format, None);
        if log.hides_panics {
            panics::hide_messages();
        }
        crate::install_provider();
    };
    step_processes::run_if_asked(registry, start_log).map(ExitCode::from)
}

/// Whether this program can run the steps of these hosts. Logs what those in processes of their own are not protected by.
///
/// # Errors
/// Where a type has a step in a process of its own, and `main` has not called [`run_if_asked`].
pub fn check(registry: &Registry, settings: &Settings, hosts: &[Host]) -> Result<(), Exit> {
    match registry.isolated_on(hosts) {
        None => Ok(()),
        Some(task_type) if !is_prepared() => Err(Exit::config(format_args!(
            "task type `{task_type}` has a step in a process of its own (`isolate = \"process\"`), and this program \
             cannot start one: call `counterstep::step_process::run_if_asked(&registry)` first in `main`, and end with \
             the code that it gives"
        ))),
        Some(_) => {
            for lack in step_processes::lacks(&settings.without_protection) {
                tracing::warn!(
                    protection = lack.protection,
                    reason = lack.reason,
                    effect = lack.effect,
                    "steps in processes of their own lack a protection"
                );
            }
            Ok(())
        }
    }
}

/// Starts processes for steps as these settings say. `scratch`: as the turns have it.
pub(crate) fn processes(settings: &Settings, scratch: FolderScratch) -> ChildProcesses {
    ChildProcesses {
        scratch,
        log: LogSettings {
            filter: settings.log.clone(),
            json: settings.log_format == LogFormat::Json,
            hides_panics: settings.payload_keys.is_some(),
        },
        environment: settings.step_env.iter().cloned().collect(),
        readable: settings.step_paths.clone(),
        without: settings.without_protection.clone(),
    }
}
