//! The reconciler's part of a command line.

use crate::{PassPlan, ReconcilerSettings, pass_until, plan, plan_listing, serve};
use counterstep_node::settings::duration;
use counterstep_node::{Exit, SettingsArgs, open, run, shutdown_on_signals};
use counterstep_steps::Registry;
use std::sync::Arc;

/// Flags of the reconciler service.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ReconcilerArgs {
    /// One pass, however often the service passes, then exit: 0 when all went well, 1 when
    /// something failed
    // No conflict with `every`: a variable may set that for the service on this machine.
    #[arg(long)]
    pub once: bool,
    /// Pass again after this long, as 30s [default: 30s]
    #[arg(long, env = "COUNTERSTEP_EVERY")]
    pub every: Option<String>,
    /// At most so many of each kind in one pass [default: 1000]
    #[arg(long, value_name = "COUNT")]
    pub limit: Option<u32>,
    /// At most so many pages, of a thousand objects each, of a listing of the object store in one
    /// pass [default: 100]
    #[arg(long, value_name = "COUNT")]
    pub pages: Option<u32>,
    /// Take a task back only when its lease ran out at least so long ago, as 10s [default: 0s]
    #[arg(long, value_name = "TIME")]
    pub stale_after: Option<String>,
    /// Take back tasks of this type only, by its declared name
    #[arg(long, value_name = "TYPE")]
    pub only: Option<String>,
    /// Offer a task again that no host has claimed in this time, as 60s [default: 60s]
    #[arg(long, value_name = "TIME", env = "COUNTERSTEP_OFFER_AFTER")]
    pub offer_after: Option<String>,
    /// Print what one pass would do, and do nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// The whole service.
///
/// # Errors
/// [`Exit`], when it cannot start, or a single pass failed.
pub fn main(
    registry: Registry,
    settings: &SettingsArgs,
    args: &ReconcilerArgs,
) -> Result<(), Exit> {
    let settings = settings.resolve()?;
    let mut reconciler = ReconcilerSettings::default();
    if let Some(every) = &args.every {
        reconciler.every = duration("every", every)?;
    } else if let Some(every) = settings.every {
        reconciler.every = every;
    }
    if let Some(limit) = args.limit {
        reconciler.limit = limit;
    }
    if let Some(pages) = args.pages {
        reconciler.pages = pages;
    }
    if let Some(age) = &args.stale_after {
        reconciler.lost.stale_after = duration("stale_after", age)?;
    }
    if let Some(after) = &args.offer_after {
        reconciler.offer_after = duration("offer_after", after)?;
    }
    if let Some(name) = &args.only {
        if registry.iter().all(|known| known.decl.name != name) {
            let known: Vec<_> = registry.iter().map(|known| known.decl.name).collect();
            return Err(Exit::config(format_args!(
                "--only {name}: no such task type; known are {}",
                known.join(", ")
            )));
        }
        reconciler.lost.task_type = Some(name.clone());
    }
    run(
        &settings,
        Box::pin(async {
            let shutdown = shutdown_on_signals(&settings)?;
            let engine = open(&settings, Arc::new(registry), "reconciler").await?;
            if args.dry_run {
                let planned = plan(&engine, &reconciler)
                    .await
                    .map_err(Exit::unavailable)?;
                let listed = plan_listing(&engine, &reconciler)
                    .await
                    .map_err(Exit::unavailable)?;
                // Where there is nothing else, it says so.
                if listed.is_empty() || planned != PassPlan::default() {
                    print!("{planned}");
                }
                print!("{listed}");
                return Ok(());
            }
            if !args.once {
                serve(engine, reconciler, shutdown).await;
                return Ok(());
            }
            let report = pass_until(&engine, &reconciler, &shutdown)
                .await
                .map_err(Exit::unavailable)?;
            println!("{report}");
            if shutdown.is_cancelled() {
                return Err(Exit::failed(
                    "the pass was stopped by a signal before its end: the next one goes on",
                ));
            }
            engine.passed_once(report.counts()).await;
            if report.failed.is_empty() {
                Ok(())
            } else {
                Err(Exit::failed(report.failed.join("\n")))
            }
        }),
    )
}
