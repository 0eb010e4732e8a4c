//! A process from its settings to its end.

use crate::exit::{Exit, ExitKind};
use crate::logging::{self, SpanLayer};
use crate::settings::Settings;
use crate::step_process::{Protection, hide_memory};
use crate::traces::{self, Exporting};
use counterstep_kernel::host::Spawn;
use counterstep_steps::{CancelReason, CancelToken};
use futures::future::BoxFuture;
use rustix::fs::Mode;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Runs a process's work on a runtime of its own, with logging started. What it makes from here on,
/// the database, its journal, objects and scratch, belongs to its user alone, whatever mask the
/// process was started with: files get the mode 0600, folders 0700. What is there already keeps its
/// mode, so an operator may share a folder on purpose.
///
/// # Errors
/// As the work says; also when no runtime can be started.
pub fn run(settings: &Settings, work: BoxFuture<'_, Result<(), Exit>>) -> Result<(), Exit> {
    run_traced(settings, None, work)
}

/// The same for a service, which exports its spans where the settings say so. `role` is part of its
/// name there. It hides its memory from other processes of its user, steps above all.
///
/// # Errors
/// As [`run`]; also when the settings of the collector cannot be used.
pub fn run_service(
    settings: &Settings,
    role: &str,
    work: BoxFuture<'_, Result<(), Exit>>,
) -> Result<(), Exit> {
    if !settings.without_protection.contains(&Protection::Dumpable) {
        let failed = |error| {
            Exit::failed(format_args!(
                "the memory of the process cannot be hidden: {error}"
            ))
        };
        hide_memory().map_err(failed)?;
    }
    let traces = settings.traces.as_ref();
    let traces = traces.map(|it| traces::open(it, role)).transpose()?;
    run_traced(settings, traces, work)
}

/// Bytes of memory that this process holds; `None` where its system has no such file as Linux has.
pub(crate) fn memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let mut lines = status.lines();
    let resident = lines.find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = resident.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

fn run_traced(
    settings: &Settings,
    traces: Option<(SpanLayer, Exporting)>,
    work: BoxFuture<'_, Result<(), Exit>>,
) -> Result<(), Exit> {
    let (layer, exporting) = traces.unzip();
    logging::start(&settings.log, settings.log_format, layer);
    let work = match exporting {
        Some(exporting) => exporting.beside(work),
        None => work,
    };
    // While there is one thread: the mask is the whole process's.
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Exit::failed(format_args!("no runtime could be started: {error}")))?;
    let result = runtime.block_on(work);
    // Blocking work of a dropped step may still be running; it holds no lease any more, so it
    // is not waited for.
    runtime.shutdown_background();
    result
}

/// Time limit of the last writes, after `drain` and `cancel_grace`. Then the process ends.
const LAST_WRITES: Duration = Duration::from_secs(5);

/// Time limit of the last log line: its reader may have stopped, and the log must not delay the end.
const LAST_LOG_LINE: Duration = Duration::from_millis(200);

/// A token that is cancelled by the first SIGINT, SIGTERM or SIGHUP; not by SIGHUP where the program was started with it ignored, as
/// `nohup` does. The process ends by itself then, with 0 where all that ran has ended or was handed over. At the latest after `drain`, `cancel_grace`
/// and five seconds it ends with 1, whatever runs or does not answer: all that counts is in the
/// database, but a lease that could not be given back runs out and counts as a lost host. A second
/// SIGINT or SIGTERM cuts `drain` short; a third ends the process at once, with 130.
///
/// # Errors
/// When the signals cannot be listened to.
pub fn shutdown_on_signals(settings: &Settings) -> Result<CancelToken, Exit> {
    let failed = |error| Exit::failed(format_args!("signals cannot be listened to: {error}"));
    // Of its own, on a thread of its own: where the threads of the other one are all blocked, the
    // process ends all the same.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failed)?;
    let (mut interrupt, mut terminate, mut hangup) = {
        let _entered = runtime.enter();
        let hangup = (!ignores(SignalKind::hangup())).then(|| signal(SignalKind::hangup()));
        (
            signal(SignalKind::interrupt()).map_err(failed)?,
            signal(SignalKind::terminate()).map_err(failed)?,
            hangup.transpose().map_err(failed)?,
        )
    };
    let token = CancelToken::new();
    let shutdown = token.clone();
    let hurry = settings.engine.hurry.clone();
    let last = settings.engine.cancel_grace + LAST_WRITES;
    let limit = settings.engine.drain + last;
    let listen = async move {
        for round in 0..3 {
            let hung_up = async {
                match &mut hangup {
                    // A terminal that closes says it twice: the kernel to all, and the shell to its jobs.
                    Some(hangup) if round == 0 => hangup.recv().await,
                    _ => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hung_up => {}
            }
            match round {
                0 => {
                    end_within(limit);
                    tracing::info!(
                        "shutting down: waiting for what is running; a second signal stops it, a third ends at once"
                    );
                    shutdown.cancel(CancelReason::Shutdown);
                }
                1 => {
                    end_within(last);
                    tracing::info!("shutting down at once: what is running is told to stop");
                    hurry.cancel(CancelReason::Shutdown);
                }
                _ => {}
            }
        }
        std::process::exit(130);
    };
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || runtime.block_on(listen))
        .map_err(failed)?;
    Ok(token)
}

/// Whether the program was started with a signal ignored, as Linux tells; elsewhere none is.
fn ignores(signal: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal.as_raw_value() - 1) & 1 == 1)
}

/// Ends the process after this time. On a thread of its own: it depends on nothing that could be
/// held up.
fn end_within(limit: Duration) {
    let ends = std::thread::Builder::new().name("shutdown".to_owned()).spawn(move || {
        std::thread::sleep(limit);
        let (logged, wait) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            tracing::warn!(
                ?limit,
                "not everything has ended in time: ending without it; leases that are still held run out by themselves"
            );
            let _ = logged.send(());
        });
        let _ = wait.recv_timeout(LAST_LOG_LINE);
        std::process::exit(ExitKind::Failed.code().into());
    });
    if let Err(error) = ends {
        tracing::warn!(%error, "no thread for the end of the process: it ends when everything in it has");
    }
}

/// Starts futures on the runtime.
#[must_use]
pub fn spawner() -> Spawn {
    Arc::new(|future| {
        tokio::spawn(future);
    })
}

#[cfg(test)]
mod tests {
    use super::memory;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_on_linux_has_a_figure_of_its_memory() {
        let bytes = memory().expect("a figure");
        assert!(bytes > 1 << 20 && bytes.is_multiple_of(1024), "{bytes}");
    }
}
