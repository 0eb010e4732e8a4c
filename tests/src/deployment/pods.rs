//! The pods of `deploy/kubernetes`, on servers that ask for the passwords of the example of secrets.

use super::{Database, Deployment, Ground, credentials, nats_with, ready, redis_with, says};
use crate::api::Api;
use crate::manifests::{self, Container};
use crate::process::{Launch, Process};
use counterstep_testkit::servers::{Nats, Redis, S3};
use serde_json::Value;

/// The kinds of pods that have secrets.
const PODS: [&str; 3] = ["api", "worker", "reconciler"];

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

/// User and password of a URL.
fn login(url: &Value) -> (String, String) {
    let (_, rest) = text(url).split_once("://").expect("a URL");
    let (login, _) = rest.split_once('@').expect("a login");
    let (user, password) = login.split_once(':').expect("a password");
    (user.to_owned(), password.to_owned())
}

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
        let of_kind =
            |kind: &str| manifests::secret(&objects, &format!("{program}-{kind}-secrets"));
        let owner = manifests::secret(&objects, &format!("{program}-owner"));
        let database = Database::start(deployment, text(&owner["database"]));
        let nats = nats_with(deployment, |kind| match kind {
            "operator" => "of-no-pod".to_owned(),
            kind => text(&of_kind(kind)["nats"]).to_owned(),
        });
        let redis = redis_with(text(&of_kind("api")["redis"]));
        let s3 = S3::start(&[program]);
        let mut ground = Ground::new(deployment);
        ground.rewrite("postgres.databases.svc", database.address());
        ground.rewrite("?sslmode=verify-full", "");
        ground.rewrite("verify-full", "disable");
        ground.rewrite("tls://nats.messaging.svc:4222", nats.url());
        ground.rewrite("rediss://redis.caches.svc:6379", redis.url());
        ground.rewrite("https://s3.example.org", s3.endpoint());
        let roles = super::path_text(&ground.place.path().join("roles/"));
        ground.rewrite("/roles/", roles);
        ground.write(
            "/roles/roles.sql",
            &deployment.manifests.text("postgres/roles.sql"),
        );
        for (key, value) in owner.as_object().expect("keys") {
            ground.write(&format!("/run/secrets/{program}/{key}"), text(value));
        }
        let settings = manifests::of_kind(&objects, "ConfigMap")
            .next()
            .expect("the settings");
        let file = format!("{program}.toml");
        let settings = text(&settings["data"][&file]);
        // What each pod mounts lies in folders of its own: those of its secret.
        for kind in PODS {
            let name = format!("{program}-{kind}-secrets");
            let folder = |of: &str| super::path_text(&ground.place.path().join(of).join(&name));
            for (key, value) in of_kind(kind).as_object().expect("keys") {
                let value = match key.as_str() {
                    "objects" => credentials(&s3),
                    _ => ground.text(text(value)),
                };
                ground.write(&format!("{}/{key}", folder("secrets")), &value);
            }
            let settings = ground.text(settings).replace(
                &ground.text(&format!("/run/secrets/{program}")),
                &folder("secrets"),
            );
            ground.write(&format!("{}/{file}", folder("settings")), &settings);
        }
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
            self.ground.run(&self.launch(&container)).assert_code(0);
        }
        let program = self.deployment.manifests.program();
        for kind in PODS {
            let secret = manifests::secret(&self.objects, &format!("{program}-{kind}-secrets"));
            let (role, password) = login(&secret["database"]);
            self.database.set_password(&role, &password);
        }
    }

    /// With the settings and the secrets that its pod mounts, and no others.
    fn launch(&self, container: &Container) -> Launch {
        let mut launch = self.ground.launch(container);
        self.database.set_address(&mut launch);
        let Some(secret) = &container.secret else {
            return launch;
        };
        let etc = self
            .ground
            .text(&format!("/etc/{}", self.deployment.manifests.program()));
        let own = self.ground.place.path().join("settings").join(secret);
        for argument in &mut launch.arguments {
            *argument = argument.replace(&etc, &super::path_text(&own));
        }
        launch
    }

    /// The API.
    ///
    /// # Panics
    /// When it does not get ready.
    pub async fn api(&self) -> (Process, Api) {
        let container = &self.containers("api/")[0];
        let launch = self.launch(container);
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
            let mut worker = self.ground.begin(&self.launch(&container));
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

    /// One pass of the reconciler, which creates the streams first.
    ///
    /// # Panics
    /// When it fails.
    pub fn reconcile(&self) {
        let container = &self.containers("reconciler/")[0];
        self.ground.run(&self.launch(container)).assert_code(0);
    }
}

/// Migrates, serves, completes a task, and stops.
///
/// # Panics
/// When anything of it does not happen.
pub async fn run_pods(deployment: &Deployment) {
    let pods = Pods::prepare(deployment);
    pods.migrate();
    // It creates the streams.
    pods.reconcile();
    let (process, api) = pods.api().await;
    pods.complete_a_task(&api).await;
    pods.reconcile();
    pods.stop(process);
}
