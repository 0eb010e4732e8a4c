//! The reconciler's part of a command line.

use crate::{
    OrphanSettings, PassPlan, ReconcilerSettings, RetentionSettings, pass_until, plan,
    plan_listing, serve,
};
use counterstep_kernel::host::outages::keep_watched;
use counterstep_kernel::workers::worker_registry;
use counterstep_node::exit::print;
use counterstep_node::settings::duration;
use counterstep_node::{
    Exit, Layers, SettingsArgs, metrics, missing_file, no_file, open, run_service,
    shutdown_on_signals,
};
use counterstep_steps::Registry;

/// What one run of the reconciler does, beside its settings.
#[derive(Debug, Clone, clap::Args)]
pub struct ReconcilerArgs {
    /// Make one pass, whatever `--every` is, then exit: 0 when all went well, 1 when something
    /// failed
    // No conflict with `every`: a variable may set that for the service on this machine.
    #[arg(long)]
    pub once: bool,
    /// Set the maximum items of each kind per pass
    #[arg(long, value_name = "COUNT", default_value_t = ReconcilerSettings::default().limit)]
    pub limit: u32,
    /// Set the maximum pages per pass, of a thousand objects each, of a listing of the object store
    #[arg(long, value_name = "COUNT", default_value_t = ReconcilerSettings::default().pages)]
    pub pages: u32,
    /// Take a task back only when its lease ran out at least this long ago, as 10s [default: 0s]
    #[arg(long, value_name = "TIME")]
    pub stale_after: Option<String>,
    /// Take back tasks of this type only, by its declared name
    #[arg(long, value_name = "TYPE")]
    pub only: Option<String>,
    /// Print what one pass would do, and do nothing
    #[arg(long)]
    pub dry_run: bool,
}

impl Default for ReconcilerArgs {
    fn default() -> Self {
        let ReconcilerSettings { limit, pages, .. } = ReconcilerSettings::default();
        Self {
            once: false,
            limit,
            pages,
            stale_after: None,
            only: None,
            dry_run: false,
        }
    }
}

/// What the settings say of passes, of orphans and of retention. Whether the task types that these
/// name are there is checked where the adapters are opened.
///
/// # Errors
/// [`Exit`] with the kind `Config`, naming the setting.
pub fn resolve(given: &Layers) -> Result<ReconcilerSettings, Exit> {
    let defaults = ReconcilerSettings::default();
    let upkeep = given.upkeep()?;
    Ok(ReconcilerSettings {
        every: given.every()?.unwrap_or(defaults.every),
        orphans: OrphanSettings {
            types: upkeep.orphans,
            without_task: upkeep.orphans_without_task,
        },
        retention: RetentionSettings {
            types: upkeep.retention,
            ..RetentionSettings::default()
        },
        ..defaults
    })
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
    let given = settings.read()?;
    let settings = given.resolve()?;
    let mut reconciler = ReconcilerSettings {
        limit: args.limit,
        pages: args.pages,
        ..resolve(&given)?
    };
    if let Some(age) = &args.stale_after {
        reconciler.lost.stale_after = duration("stale_after", age)?;
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
    // A single pass is over before a scraper comes, and may run beside the service of its machine.
    let listener = if args.once || args.dry_run {
        None
    } else {
        metrics::bind(&settings)?
    };
    run_service(
        &settings,
        "reconciler",
        Box::pin(async {
            let shutdown = shutdown_on_signals(&settings)?;
            match missing_file(&settings) {
                Some(path) if args.dry_run => return Err(no_file(path)),
                Some(path) if args.once => {
                    let path = path.display();
                    tracing::warn!(
                        "there was no database file `{path}`, and one is made: are --data-dir and --database right?"
                    );
                }
                _ => {}
            }
            let engine = open(&settings, registry, "reconciler").await?;
            if args.dry_run {
                let planned = plan(&engine, &reconciler)
                    .await
                    .map_err(Exit::unavailable)?;
                let listed = plan_listing(&engine, &reconciler)
                    .await
                    .map_err(Exit::unavailable)?;
                // Where there is nothing else, it says so.
                if listed.is_empty() || planned != PassPlan::default() {
                    print(&planned.to_string())?;
                }
                return print(&listed.to_string());
            }
            if !args.once {
                let passing = serve(engine.clone(), reconciler, shutdown.clone());
                metrics::beside(listener, &engine, &shutdown, passing).await;
                return Ok(());
            }
            let pass = pass_until(&engine, &reconciler, &shutdown);
            let report = keep_watched(&engine, pass)
                .await
                .map_err(Exit::unavailable)?;
            print(&format!("{report}\n"))?;
            if shutdown.is_cancelled() {
                return Err(Exit::failed(
                    "the pass was stopped by a signal before its end: the next one goes on",
                ));
            }
            worker_registry::write_single_pass(&engine, report.counts()).await;
            if report.failed.is_empty() {
                Ok(())
            } else {
                Err(Exit::failed(report.failed.join("\n")))
            }
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use counterstep_contracts::retry::format_duration;
    use counterstep_node::settings::SETTINGS;

    #[test]
    fn the_declared_defaults_are_those_of_the_reconciler() {
        let usual = ReconcilerSettings::default();
        let resolved = resolve(&Layers::default()).unwrap();
        let upkeep = |settings: &ReconcilerSettings| {
            format!("{:?} {:?}", settings.orphans, settings.retention)
        };
        assert_eq!(upkeep(&resolved), upkeep(&usual));
        let every = SETTINGS.iter().find(|setting| setting.key == "every");
        let shown = every.and_then(|every| every.default()).unwrap();
        assert!(
            shown.starts_with(&format!("{};", format_duration(usual.every))),
            "{shown}"
        );
    }
}
