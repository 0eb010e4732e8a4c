//! `counterstep dev`: all roles in one process, on the embedded adapters.

use super::output::print;
use crate::run::{Roles, run};
use counterstep_api::{ApiSettings, Beside};
use counterstep_contracts::first_request;
use counterstep_node::{Exit, SettingsArgs, open, shutdown_on_signals};
use counterstep_reconciler::ReconcilerSettings;
use counterstep_steps::Registry;
use std::time::Duration;

/// Times between passes are shorter here: the person at the screen waits for them.
const EVERY: Duration = Duration::from_secs(5);

/// So are those between looks at the whole, for the charts of the page.
const LOOKS: Duration = Duration::from_secs(2);

pub(super) fn main(registry: Registry, args: &SettingsArgs, beside: Beside) -> Result<(), Exit> {
    let given = args.read()?;
    let settings = given.resolve()?;
    let registry = counterstep_worker::cli::chosen(&given, registry)?;
    let worker = counterstep_worker::cli::resolve(&given, &registry)?;
    let reconciler = ReconcilerSettings {
        every: given.every()?.unwrap_or(EVERY),
        ..counterstep_reconciler::cli::resolve(&given)?
    };
    let (listener, api) = counterstep_api::cli::bind(&given, &settings)?;
    let api = ApiSettings {
        beside,
        history_every: LOOKS,
        ..api
    };
    let address = listener.local_addr().map_err(Exit::failed)?;
    let routes: Vec<_> = registry
        .iter()
        .map(|task_type| {
            let has = |service: &&str| settings.services.contains_key(*service);
            let lacks = registry
                .services_of(task_type)
                .filter(|service| !has(service));
            (
                task_type.decl.route(),
                lacks
                    .map(|service| format!("[services.{service}]"))
                    .collect::<Vec<_>>(),
            )
        })
        .collect();
    let document = counterstep_api::openapi_document(&registry, &api.auth);
    let first = routes
        .first()
        .and_then(|(route, _)| first_request::curl(&document, &format!("http://{address}"), route));
    let data = settings.database.to_string();
    counterstep_node::run_service(
        &settings,
        "dev",
        Box::pin(async {
            let shutdown = shutdown_on_signals(&settings)?;
            let engine = open(&settings, registry, "dev").await?;
            let mut text =
                format!("API, worker and reconciler are running; the data is at {data}\n");
            if cfg!(feature = "ui") {
                text += &format!("the page is at http://{address}/ui\n");
            }
            for (route, lacks) in routes {
                text += &format!("submit to http://{address}/api/tasks/{route}\n");
                if !lacks.is_empty() {
                    let lacks = lacks.join(", ");
                    text += &format!("  its tasks fail until the settings have {lacks}\n");
                }
            }
            if let Some(first) = first {
                text += &format!("for example:\n  {first}\n");
            }
            print(&text)?;
            let roles = Roles {
                api: Some((listener, api)),
                worker: Some(worker),
                reconciler: Some(reconciler),
            };
            run(&engine, roles, shutdown).await
        }),
    )
}
