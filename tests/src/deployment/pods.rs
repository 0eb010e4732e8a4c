//! The pods of `deploy/kubernetes`, on servers that ask for the passwords of the example of secrets.

use super::{Database, Deployment, Ground, credentials, ready, redis_with, says};
use crate::api::Api;
use crate::manifests::{self, Container};
use crate::process::Process;
use counterstep_testkit::servers::{Nats, Redis, S3};
use serde_json::Value;

/// Everything that the pods need, and the pods.
#[derive(Debug)]
pub struct Pods<'a> {
    deployment: &'a Deployment,
    /// The objects of all manifests.
    pub objects: Vec<Value>,
    /// The server that autoscalers watch.
    pub nats: Nats,
    ground: Ground,
    database: Database,
    _redis: Redis,
    _objects: S3,
}

impl<'a> Pods<'a> {
    /// Starts the servers, and mounts settings and secrets.
    ///
    /// # Panics
    /// When anything does not start.
    #[must_use]
    pub fn prepare(deployment: &'a Deployment) -> Self {
        let objects = deployment.manifests.objects();
        let program = deployment.manifests.program();
        let secrets = manifests::secret(&objects, &format!("{program}-secrets")).clone();
        let secret = |key: &str| secrets[key].as_str().expect("a secret").to_owned();
        // The owner's password is part of a URL in the example: the same as the others.
        let database = Database::start(program, &secret("database-password"));
        let accounts = deployment.manifests.text("nats/accounts.conf");
        let nats = Nats::with_lines(
            &accounts.replace("$COUNTERSTEP_NATS_PASSWORD", &secret("nats-password")),
        );
        let redis = redis_with(&secret("redis-password"));
        let s3 = S3::start(&[program]);
        let mut ground = Ground::new(deployment);
        ground.rewrite("postgres.databases.svc", database.address());
        ground.rewrite("?sslmode=verify-full", "");
        ground.rewrite("?sslmode=require", "");
        ground.rewrite("tls://nats.messaging.svc:4222", nats.url());
        ground.rewrite("rediss://redis.caches.svc:6379", redis.url());
        ground.rewrite("https://s3.example.org", s3.endpoint());
        let roles = super::path_text(&ground.place.path().join("roles/"));
        ground.rewrite("/roles/", roles);
        ground.write(
            "/roles/roles.sql",
            &deployment.manifests.text("postgres/roles.sql"),
        );
        for (name, value) in secrets.as_object().expect("keys") {
            let keys = credentials(&s3);
            let is_keys = name == "s3-credentials";
            let value = if is_keys {
                &keys
            } else {
                value.as_str().expect("a text")
            };
            ground.write(&format!("/run/secrets/{program}/{name}"), value);
        }
        let settings = manifests::of_kind(&objects, "ConfigMap")
            .next()
            .expect("the settings");
        let file = format!("{program}.toml");
        let text = settings["data"][&file].as_str().expect("a file");
        ground.write(&format!("/etc/{program}/{file}"), &ground.text(text));
        Self {
            deployment,
            objects,
            nats,
            ground,
            database,
            _redis: redis,
            _objects: s3,
        }
    }

    /// The containers of the pods whose names begin with that of the program and this.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn containers(&self, of: &str) -> Vec<Container> {
        let program = self.deployment.manifests.program();
        let mut found = manifests::containers(&self.objects);
        found.retain(|container| container.name.starts_with(&format!("{program}-{of}")));
        assert!(!found.is_empty(), "{of}");
        for container in found
            .iter_mut()
            .filter(|container| container.image.starts_with(program))
        {
            // Those of the container come before those of its image.
            let own = std::mem::take(&mut container.variables);
            container.variables = self.deployment.manifests.image_variables();
            container.variables.extend(own);
        }
        found
    }

    /// Migrates as the Job does, and sets the password of the services.
    ///
    /// # Panics
    /// When it fails.
    pub fn migrate(&self) {
        for container in self.containers("migrate/") {
            self.ground
                .run(&self.ground.launch(&container))
                .assert_code(0);
        }
        let secrets = format!("{}-secrets", self.deployment.manifests.program());
        let secrets = manifests::secret(&self.objects, &secrets);
        let password = secrets["database-password"].as_str().expect("a password");
        self.database.set_service_password(password);
    }

    /// The API.
    ///
    /// # Panics
    /// When it does not get ready.
    pub async fn api(&self) -> (Process, Api) {
        let container = &self.containers("api/")[0];
        let launch = self.ground.launch(container);
        let mut process = self.ground.begin(&launch);
        let api = ready(&self.ground, &launch, &mut process).await;
        (process, api)
    }

    /// The workers of all Deployments run a task together; they end when they are told to.
    ///
    /// # Panics
    /// When anything of it does not happen.
    pub async fn complete_a_task(&self, api: &Api) {
        let start = |container: Container| {
            let mut worker = self.ground.begin(&self.ground.launch(&container));
            says(&mut worker, "worker started");
            (worker, container.name)
        };
        let workers: Vec<_> = self.containers("worker").into_iter().map(start).collect();
        self.deployment.complete_a_task(api).await;
        for (worker, name) in workers {
            self.ground.stop(worker, &name);
        }
    }

    /// Ends the API.
    ///
    /// # Panics
    /// When it does not end as it must.
    pub fn stop(&self, api: Process) {
        self.ground.stop(api, "the API");
    }

    /// One pass of the reconciler.
    ///
    /// # Panics
    /// When it fails.
    pub fn reconcile(&self) {
        let container = &self.containers("reconciler/")[0];
        self.ground
            .run(&self.ground.launch(container))
            .assert_code(0);
    }
}

/// Migrates, serves, completes a task, and stops.
///
/// # Panics
/// When anything of it does not happen.
pub async fn run_pods(deployment: &Deployment) {
    let pods = Pods::prepare(deployment);
    pods.migrate();
    let (process, api) = pods.api().await;
    pods.complete_a_task(&api).await;
    pods.reconcile();
    pods.stop(process);
}
