//! What processes say of themselves: a reconciler of its last pass, and those that are forgotten
//! when they were not seen for a day.

use crate::{Errand, NEVER, Scene, settings};
use counterstep_adapters::postgres::{PostgresOptions, PostgresStore};
use counterstep_contracts::workers::WorkerState;
use counterstep_kernel::ports::Ports;
use counterstep_kernel::status;
use counterstep_kernel::workers::registration::Part;
use counterstep_kernel::workers::worker_registry;
use counterstep_kernel::{Engine, EngineSettings};
use counterstep_reconciler::{ReconcilerSettings, plan, serve};
use counterstep_steps::{CancelReason, CancelToken, Registry};
use counterstep_testkit::many_tasks::eventually;
use counterstep_testkit::servers::shared_postgres;
use std::sync::Arc;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn a_reconciler_says_what_its_last_pass_did_and_processes_not_seen_for_a_day_are_forgotten() {
    let (server, scene) = (shared_postgres(), Scene::new().await);
    let url = server.database();
    PostgresStore::migrate(&url, &PostgresOptions::default())
        .await
        .expect("a schema");
    let store = PostgresStore::open(&url, PostgresOptions::default())
        .await
        .expect("a store");
    let ports = Ports {
        store: store.into(),
        ..scene.engine.ports.clone()
    };
    let settings_of = EngineSettings {
        lost_after: Duration::from_millis(300),
        ..EngineSettings::default()
    };
    let registry = Arc::new(Registry::new().with::<Errand>());
    let old = Engine::new(
        ports.clone(),
        registry.clone(),
        settings_of.clone(),
        "worker",
    );
    worker_registry::keep_refreshed(&old, Part::default(), Box::pin(async {})).await;
    let young = Engine::new(
        ports.clone(),
        registry.clone(),
        settings_of.clone(),
        "worker",
    );
    worker_registry::keep_refreshed(&young, Part::default(), Box::pin(async {})).await;
    let age = format!(
        "UPDATE documents SET seen_at = now() - interval '25 hours' WHERE name = '{}'",
        old.id
    );
    server.run_sql(&url, &age).expect("it is old");

    let reconciler = Engine::new(ports, registry, settings_of, "reconciler");
    let planned = plan(&reconciler, &settings(NEVER))
        .await
        .expect("a plan")
        .to_string();
    assert_eq!(
        planned,
        format!("forget process {}: it was not seen for a day\n", old.id)
    );
    let stop = CancelToken::new();
    let settings = ReconcilerSettings {
        every: Duration::from_millis(50),
        ..settings(NEVER)
    };
    let serving = tokio::spawn(serve(reconciler.clone(), settings, stop.clone()));
    eventually("the counts of its last pass", || async {
        let found = status::read(&reconciler).await.expect("an answer").workers;
        let says = found
            .iter()
            .find(|worker| worker.id == *reconciler.id)
            .and_then(|found| found.last_pass.as_ref());
        (found.len() == 2 && says.is_some_and(|pass| pass.counts.contains_key("offered_again")))
            .then_some(())
    })
    .await;
    stop.cancel(CancelReason::Shutdown);
    serving.await.expect("it stops");
    let found = status::read(&reconciler).await.expect("an answer").workers;
    let states: Vec<_> = found
        .iter()
        .map(|worker| (worker.id.as_str(), worker.state))
        .collect();
    assert_eq!(
        states,
        [
            (&*reconciler.id, WorkerState::Stopped),
            (&*young.id, WorkerState::Stopped)
        ]
    );
}
