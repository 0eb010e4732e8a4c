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
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
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

    // The alarm of docs/metrics.md: each pass that runs alone sets the figure, and all of them
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

/// What a program is, its words, and its variables.
type Started = (String, Vec<String>, Vec<(String, String)>);

/// Each program that `deploy/` starts.
fn started() -> Vec<Started> {
    let shipped = Manifests::shipped();
    let mut all = Vec::new();
    let pods = manifests::containers(&shipped.objects());
    all.extend(
        pods.into_iter()
            .map(|it| (it.name, it.command, it.variables)),
    );
    for service in shipped.composed() {
        let container = service.container;
        let words = [container.command, service.health].concat();
        all.push((container.name, words, container.variables));
    }
    for kind in ["api", "worker@", "reconciler", "migrate"] {
        let unit = format!("systemd/counterstep-{kind}.service");
        let (words, variables) = (
            shipped.unit(&unit, "ExecStart"),
            shipped.unit(&unit, "Environment"),
        );
        let variables = manifests::environment(&variables.join("\n"))
            .into_iter()
            .collect();
        all.push((unit, words, variables));
    }
    all
}

/// What stands for passwords in `deploy/`.
const PASSWORDS: [&str; 2] = ["change-me", "for-trying-out"];

#[test]
fn no_password_stands_in_an_argument() {
    let is_password = |text: &str| PASSWORDS.iter().any(|it| text.contains(it));
    let mut with_passwords = 0;
    for (name, words, variables) in started() {
        for word in &words {
            assert!(!is_password(word), "{name}: {word}");
            for (variable, _) in variables.iter().filter(|(_, value)| is_password(value)) {
                // As a shell would put it there.
                let given = [format!("${variable}"), format!("${{{variable}}}")];
                assert!(!given.iter().any(|it| word.contains(it)), "{name}: {word}");
                with_passwords += 1;
            }
        }
    }
    assert!(with_passwords > 0, "no program has a password");
}

#[test]
fn every_connection_to_the_database_of_another_machine_verifies_it() {
    let shipped = Manifests::shipped();
    let files = [
        "README.md",
        "counterstep.example.toml",
        "kubernetes/migrate.yaml",
        "kubernetes/secrets.example.yaml",
        "kubernetes/settings.yaml",
        "systemd/counterstep-migrate.service",
    ];
    let mut found = 0;
    for file in files {
        // A value of the chart is a word of the address.
        let text = shipped.text(file).replace("{{ ", "{{").replace(" }}", "}}");
        for url in text.split("postgres://").skip(1) {
            let url = url.split([' ', '`', '\n', '"', ')']).next().expect("a URL");
            assert!(url.ends_with("?sslmode=verify-full"), "{file}: {url}");
            found += 1;
        }
    }
    assert!(found >= files.len(), "{found}");
    for container in manifests::containers(&shipped.objects()) {
        let variables: BTreeMap<_, _> = container.variables.into_iter().collect();
        if variables.contains_key("PGHOST") {
            assert_eq!(variables["PGSSLMODE"], "verify-full", "{}", container.name);
            // psql knows no authority without it.
            assert!(
                variables.contains_key("PGSSLROOTCERT"),
                "{}",
                container.name
            );
        }
    }
}

/// Namespace and port of each server in the settings of the pods, and those of their secrets.
fn servers(objects: &[Value]) -> BTreeSet<(String, u64)> {
    let texts = objects.iter().map(Value::to_string);
    let mut servers = BTreeSet::new();
    for text in texts {
        for (scheme, usual) in [("postgres://", 5432), ("tls://", 4222), ("rediss://", 6379)] {
            for url in text.split(scheme).skip(1) {
                let host = url.split(['/', '"', '\\']).next().expect("a host");
                let host = host.rsplit('@').next().expect("a host");
                let (host, port) = host.split_once(':').unwrap_or((host, ""));
                let mut names = host.split('.').skip(1);
                if let (Some(namespace), Some("svc")) = (names.next(), names.next()) {
                    servers.insert((namespace.to_owned(), port.parse().unwrap_or(usual)));
                }
            }
        }
    }
    servers
}

/// Whether a policy is for the pods with this name.
fn is_for(policy: &Value, pod: &str) -> bool {
    const NAME: &str = "app.kubernetes.io/name";
    let selector = &policy["spec"]["podSelector"];
    let named = &selector["matchLabels"][NAME];
    let others = selector["matchExpressions"]
        .as_array()
        .into_iter()
        .flatten();
    let excludes = |it: &Value| {
        assert_eq!(
            (&it["key"], &it["operator"]),
            (&json!(NAME), &json!("NotIn")),
            "{policy}"
        );
        it["values"]
            .as_array()
            .expect("names")
            .contains(&json!(pod))
    };
    (named.is_null() || *named == pod) && !others.into_iter().any(excludes)
}

#[test]
fn a_pod_reaches_its_servers_and_no_other_address_of_the_cluster() {
    let objects = Manifests::shipped().objects();
    let policies: Vec<_> = manifests::of_kind(&objects, "NetworkPolicy").collect();
    let all = servers(&objects);
    assert_eq!(all.len(), 3, "{all:?}");
    for kind in ["api", "worker", "worker-video", "reconciler", "migrate"] {
        let pod = format!("counterstep-{kind}");
        assert!(
            objects.iter().any(|it| it["metadata"]["name"] == *pod),
            "{pod}"
        );
        let own: Vec<_> = policies
            .iter()
            .filter(|policy| is_for(policy, &pod))
            .collect();
        let denies = |policy: &&&&Value| {
            let types = policy["spec"]["policyTypes"].as_array().expect("types");
            types.contains(&json!("Egress")) && policy["spec"]["egress"].is_null()
        };
        assert!(
            own.iter().any(|policy| denies(&policy)),
            "{pod}: what is not allowed is denied"
        );
        let rules = own
            .iter()
            .flat_map(|it| it["spec"]["egress"].as_array().into_iter().flatten());
        let mut reached = BTreeSet::new();
        for rule in rules {
            for port in rule["ports"].as_array().expect("ports") {
                let port = port["port"].as_u64().expect("a number");
                for to in rule["to"].as_array().expect("where to") {
                    let namespace =
                        &to["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"];
                    match (namespace.as_str(), to["ipBlock"]["except"].as_array()) {
                        (Some("kube-system"), None) => assert_eq!(port, 53, "{rule}"),
                        (Some(namespace), None) => {
                            reached.insert((namespace.to_owned(), port));
                        }
                        (None, Some(except)) => {
                            assert_eq!(port, 443, "{rule}");
                            let is_v6 = to["ipBlock"]["cidr"] == "::/0";
                            let metadata = if is_v6 { "fe80::/10" } else { "169.254.0.0/16" };
                            assert!(except.contains(&json!(metadata)), "{rule}");
                        }
                        _ => panic!("{rule}"),
                    }
                }
            }
        }
        let mut expected = all.clone();
        if kind == "migrate" {
            expected.retain(|(namespace, _)| namespace == "databases");
        }
        assert_eq!(reached, expected, "{pod}");
    }
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
