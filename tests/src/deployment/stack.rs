//! The services of `deploy/compose.yaml`, in the order of what they wait for.

use super::{Database, Deployment, Ground, nats_with, own_queues, ready, says};
use crate::command::to_its_end;
use crate::manifests::{Container, Service};
use crate::process::Launch;
use crate::wait::{SOON, until_now};
use counterstep_testkit::servers::{Redis, S3};
use std::collections::BTreeSet;
use std::process::Command;

/// The port of the API within its container.
const PORT: &str = "8080";

/// That of the probes of workers and reconcilers.
const PROBES_PORT: &str = "9090";

/// Starts the whole stack, completes a task, and stops it.
///
/// # Panics
/// When a service does not start, or does not end as it must.
pub async fn run_stack(deployment: &Deployment) {
    let program = deployment.manifests.program();
    let services = deployment.manifests.composed();
    let owner = variable(of_name(&services, "postgres"), "POSTGRES_PASSWORD");
    let database = Database::start(deployment, &owner);
    let nats = nats_with(deployment, |kind| {
        let name = format!("COUNTERSTEP_NATS_{}_PASSWORD", kind.to_uppercase());
        variable(of_name(&services, "nats"), &name)
    });
    let (redis, s3) = (Redis::start(), S3::start(&[program]));
    let mut ground = Ground::new(deployment);
    ground.rewrite("@postgres/", format!("@{}/", database.address()));
    ground.rewrite("nats://nats:4222", nats.url());
    ground.rewrite("redis://redis:6379", redis.url());
    ground.rewrite("http://objects:7070", s3.endpoint());

    let is_ours = |service: &&Service| service.container.image.starts_with(program);
    let is_client = |service: &&Service| {
        service
            .container
            .command
            .first()
            .is_some_and(|it| it == "psql")
    };
    let (on_demand, with_stack): (Vec<&Service>, Vec<&Service>) =
        services.iter().partition(|service| service.is_on_demand);
    let (mut waiting, servers): (Vec<_>, Vec<_>) = with_stack
        .into_iter()
        .partition(|service| is_ours(service) || is_client(service));
    let mut there: BTreeSet<&str> = servers
        .iter()
        .map(|server| server.container.name.as_str())
        .collect();
    let (mut running, mut apis, mut pages) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(at) = waiting.iter().position(|service| {
        service
            .after
            .iter()
            .all(|other| there.contains(other.as_str()))
    }) {
        let service = waiting.remove(at);
        let name = service.container.name.as_str();
        let container = if is_ours(&service) {
            with_image(deployment, service)
        } else {
            service.container.clone()
        };
        for (from, to) in &service.files {
            ground.rewrite(to, super::path_text(&ground.place.path().join(&to[1..])));
            ground.write(to, &deployment.manifests.text(from));
        }
        for (text, to) in &service.texts {
            ground.write(to, text);
        }
        let mut launch = ground.launch(&container);
        set_servers(&mut launch, &database, &s3);
        if service.ends {
            ground.run(&launch).assert_code(0);
        } else {
            let mut process = ground.begin(&launch);
            match container.command[1].as_str() {
                "api" => {
                    let api = ready(&ground, &launch, &mut process).await;
                    assert_healthy(service, PORT, api.url());
                    apis.push(api);
                }
                role => {
                    let probes = process.metrics_address();
                    says(&mut process, &format!("{role} started"));
                    assert_healthy(service, PROBES_PORT, &probes);
                    pages.push(probes);
                }
            }
            running.push((process, name));
        }
        there.insert(name);
    }
    assert!(
        waiting.is_empty(),
        "these wait for what does not come: {waiting:#?}"
    );
    assert!(!apis.is_empty(), "a stack without an API");
    for api in &apis {
        deployment.complete_a_task(api).await;
    }
    own_queues::serve_without_polling(deployment, &apis[0], &pages).await;
    for service in on_demand {
        let mut launch = ground.launch(&with_image(deployment, service));
        set_servers(&mut launch, &database, &s3);
        ground.run(&launch).assert_code(0);
    }
    for (process, name) in running {
        ground.stop(process, name);
    }
}

/// The container of a service that runs the program's image.
fn with_image(deployment: &Deployment, service: &Service) -> Container {
    let mut container = service.container.clone();
    container.user = Some(deployment.manifests.image_user());
    container.variables = deployment.manifests.image_variables();
    let own = service.container.variables.iter().cloned();
    container.variables.extend(own);
    container
}

fn of_name<'a>(services: &'a [Service], name: &str) -> &'a Service {
    let found = services
        .iter()
        .find(|service| service.container.name == name);
    found.unwrap_or_else(|| panic!("no service `{name}`"))
}

fn variable(service: &Service, name: &str) -> String {
    let found = service
        .container
        .variables
        .iter()
        .find(|(own, _)| own == name);
    found
        .unwrap_or_else(|| panic!("no variable {name}"))
        .1
        .clone()
}

/// Where the private servers are, for variables that name nothing else.
fn set_servers(launch: &mut Launch, database: &Database, s3: &S3) {
    database.set_address(launch);
    for (name, value) in &mut launch.variables {
        match name.as_str() {
            "AWS_ACCESS_KEY_ID" => *value = s3.access_key().to_owned(),
            "AWS_SECRET_ACCESS_KEY" => *value = s3.secret_key().to_owned(),
            _ => {}
        }
    }
}

/// The health check of the service says that it is healthy, at the port that it has here.
fn assert_healthy(service: &Service, in_the_file: &str, url: &str) {
    let port = url.rsplit_once(':').expect("a port").1;
    until_now("a health check that passes", SOON, || {
        let mut words = service
            .health
            .iter()
            .map(|word| word.replace(in_the_file, port));
        let mut check = Command::new(words.next().expect("a health check"));
        check.args(words);
        (to_its_end(std::path::Path::new("/"), check).code == Some(0)).then_some(())
    });
}
