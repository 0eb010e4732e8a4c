//! What `deploy/` ships is started as it stands there: each program with exactly the variables,
//! arguments, files and user of its pod, service or unit, on private servers that ask for the
//! passwords. Only the addresses are others.

use counterstep_contracts::Host;
use counterstep_tests::api::Api;
use counterstep_tests::command::to_its_end;
use counterstep_tests::deployment::{Deployment, Pods, run_stack, run_units};
use counterstep_tests::manifests::{self, Container, Manifests};
use counterstep_tests::place::Place;
use counterstep_tests::program::program_called;
use reqwest::Method;
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;

async fn read(url: String) -> Value {
    let (host, path) = url
        .strip_prefix("http://")
        .and_then(|url| url.split_once('/'))
        .expect("a URL");
    let answer = Api::at(host)
        .request(Method::GET, &format!("/{path}"))
        .send()
        .await
        .expect("an answer");
    serde_json::from_str(&answer.text().await.expect("a body")).expect("JSON")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_pod_starts_with_exactly_its_variables_and_autoscaler_and_alarm_find_what_they_watch()
{
    let deployment = Deployment::shipped();
    let pods = Pods::prepare(&deployment);
    pods.migrate();
    pods.reconcile();
    let (mut process, api) = pods.api().await;
    pods.complete_a_task(&api).await;
    pods.reconcile();

    // The alarm of docs/operations.md: each pass that runs alone sets the figure, and all of them
    // are one row.
    pods.reconcile();
    let address = process.metrics_address();
    let metrics = Api::at(&address).request(Method::GET, "/metrics").send();
    let metrics = metrics.await.expect("an answer").text().await;
    let metrics = metrics.expect("a body");
    assert!(
        metrics.contains("\ncounterstep_last_pass_age_seconds "),
        "{metrics}"
    );
    let workers = api.request(Method::GET, "/api/workers").send().await;
    let workers: Value = workers.expect("an answer").json().await.expect("JSON");
    let rows = workers["workers"]
        .as_array()
        .expect("rows")
        .iter()
        .filter(|worker| worker["role"] == "reconciler");
    assert_eq!(rows.count(), 1, "{workers}");

    let mut watched = BTreeSet::new();
    for object in manifests::of_kind(&pods.objects, "ScaledObject") {
        for trigger in object["spec"]["triggers"].as_array().expect("triggers") {
            let part = |name: &str| {
                trigger["metadata"][name]
                    .as_str()
                    .expect("a text")
                    .to_owned()
            };
            let (account, stream, consumer) = (part("account"), part("stream"), part("consumer"));
            // As the scaler asks.
            let url = format!(
                "{}/jsz?acc={account}&consumers=true&config=true",
                pods.nats.monitor_url()
            );
            let found = read(url).await;
            let account = &found["account_details"][0];
            assert_eq!(account["name"], part("account"), "{found}");
            let streams = account["stream_detail"].as_array().expect("streams").iter();
            let of_name = |it: &&Value, name: &str| it["name"] == name;
            let stream = streams
                .clone()
                .find(|it| of_name(it, &stream))
                .unwrap_or_else(|| panic!("{stream}: {found}"));
            let mut consumers = stream["consumer_detail"]
                .as_array()
                .expect("consumers")
                .iter();
            assert!(
                consumers.any(|it| of_name(&it, &consumer)),
                "{consumer}: {found}"
            );
            watched.insert(consumer);
        }
    }
    let with_backlogs: BTreeSet<_> = queues()
        .into_iter()
        .flat_map(|queue| [format!("{queue}~backlog"), queue])
        .collect();
    assert_eq!(
        watched, with_backlogs,
        "each queue has its trigger, and so has its backlog"
    );
    pods.stop(process);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_service_of_the_stack_starts_with_exactly_its_variables_and_they_complete_a_task() {
    run_stack(&Deployment::shipped()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_unit_starts_with_exactly_its_files_and_they_complete_a_task() {
    run_units(&Deployment::shipped()).await;
}

/// Of the shipped task types.
fn queues() -> BTreeSet<String> {
    counterstep_tasks::tasks()
        .queues(Host::Worker)
        .into_iter()
        .map(|queue| queue.0)
        .collect()
}

#[test]
fn every_queue_has_a_worker_and_that_of_videos_one_with_ffmpeg() {
    let shipped = Manifests::shipped();
    let composed = shipped.composed().into_iter();
    for containers in [
        manifests::containers(&shipped.objects()),
        composed.map(|service| service.container).collect(),
    ] {
        let served = containers
            .iter()
            .flat_map(Container::queues)
            .map(str::to_owned)
            .collect::<BTreeSet<_>>();
        assert_eq!(served, queues(), "{containers:#?}");
        for container in containers
            .iter()
            .filter(|container| container.queues().contains(&"video-processing"))
        {
            assert!(container.image.contains("video"), "{container:?}");
        }
    }
}

#[test]
fn prometheus_may_reach_the_port_with_the_metrics() {
    let objects = Manifests::shipped().objects();
    let policies = manifests::of_kind(&objects, "NetworkPolicy");
    // Of all pods.
    let of_all = |policy: &&Value| {
        let selected = policy["spec"]["podSelector"].as_object();
        policy["spec"]["ingress"].is_array() && selected.is_some_and(serde_json::Map::is_empty)
    };
    let policy = policies.into_iter().find(of_all).expect("a policy");
    let rules = policy["spec"]["ingress"].as_array().expect("rules").iter();
    let lets_in = |rule: &&Value| {
        rule["ports"][0]["port"] == 9090
            && rule["from"][0]["podSelector"]["matchLabels"]["app.kubernetes.io/name"]
                == "prometheus"
            && rule["from"][0]["namespaceSelector"]["matchLabels"]["counterstep/monitoring"]
                == "true"
    };
    assert_eq!(rules.filter(lets_in).count(), 1, "{policy}");
}

#[test]
fn a_program_starts_beside_the_service_links_of_a_pod_that_has_them() {
    let (place, links) = (
        Place::new(),
        manifests::service_links(&Manifests::shipped().objects()),
    );
    assert!(
        links
            .iter()
            .any(|(name, _)| name == "COUNTERSTEP_API_SERVICE_HOST"),
        "{links:?}"
    );
    let mut describe = Command::new(program_called("counterstep"));
    describe.arg("describe").env_clear().envs(links);
    to_its_end(place.path(), describe).assert_code(0);
}
