//! The reconciler's part of a command line.

use crate::{ReconcilerSettings, pass, plan, serve};
use counterstep_kernel::Registry;
use counterstep_node::settings::duration;
use counterstep_node::{Exit, SettingsArgs, open, run, shutdown_on_signals};
use std::sync::Arc;

/// Flags of the reconciler service.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ReconcilerArgs {
    /// One pass, however often the service passes, then exit: 0 when all went well, 1 when something failed
    // No conflict with `every`: a variable may set that for the service on this machine.
    #[arg(long)]
    pub once: bool,
    /// Pass again after this long, as 30s [default: 30s]
    #[arg(long, env = "COUNTERSTEP_EVERY")]
    pub every: Option<String>,
    /// Print what one pass would do, and do nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// The whole service.
///
/// # Errors
/// [`Exit`], when it cannot start, or a single pass failed.
pub fn main(registry: Registry, settings: &SettingsArgs, args: &ReconcilerArgs) -> Result<(), Exit> {
    let settings = settings.resolve()?;
    let mut reconciler = ReconcilerSettings::default();
    if let Some(every) = &args.every {
        reconciler.every = duration("every", every)?;
    } else if let Some(every) = settings.every {
        reconciler.every = every;
    }
    run(
        &settings,
        Box::pin(async {
            let shutdown = shutdown_on_signals()?;
            let engine = open(&settings, Arc::new(registry), "reconciler").await?;
            if args.dry_run {
                print!("{}", plan(&engine, &reconciler).await.map_err(Exit::unavailable)?);
                return Ok(());
            }
            if !args.once {
                serve(engine, reconciler, shutdown).await;
                return Ok(());
            }
            let report = pass(&engine, &reconciler).await.map_err(Exit::unavailable)?;
            println!("{report}");
            if report.failed.is_empty() { Ok(()) } else { Err(Exit::failed(report.failed.join("\n"))) }
        }),
    )
}
