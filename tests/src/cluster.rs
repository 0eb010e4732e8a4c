//! The services on real servers, as a deployment has them: several processes of each kind on
//! PostgreSQL, NATS, Redis and S3.

use crate::place::Place;
use crate::process::Process;
use crate::services::{self, Served};
use counterstep_testkit::servers::{NatsCluster, Servers};
use std::path::PathBuf;

/// The one real bucket; declared buckets are folders of it.
const BUCKET: &str = "store";

/// Servers of its own, and the settings with which processes find them.
#[derive(Debug)]
pub struct Cluster {
    /// The servers.
    pub servers: Servers,
    /// In place of the one NATS server, where there is one.
    pub nats_cluster: Option<NatsCluster>,
    /// Logs and local files.
    pub place: Place,
    /// The database.
    pub database: String,
    /// The object store.
    pub objects: String,
    times: Vec<String>,
}

impl Cluster {
    /// Starts the servers and makes the schema. `times` go to every service.
    ///
    /// # Panics
    /// When anything does not start.
    #[must_use]
    pub fn start(times: &[&str]) -> Self {
        Self::on(Servers::start(&[BUCKET]), times)
    }

    /// The same with a PostgreSQL that a standby may follow.
    ///
    /// # Panics
    /// When anything does not start.
    #[must_use]
    pub fn with_primary(times: &[&str]) -> Self {
        Self::on(Servers::with_primary(&[BUCKET]), times)
    }

    fn on(servers: Servers, times: &[&str]) -> Self {
        let place = Place::new();
        let credentials = place.path().join("credentials");
        let (key, secret) = (servers.s3.access_key(), servers.s3.secret_key());
        std::fs::write(
            &credentials,
            format!("aws_access_key_id = {key}\naws_secret_access_key = {secret}\n"),
        )
        .expect("a file with credentials");
        let endpoint = servers.s3.endpoint();
        let objects = format!(
            "s3://{BUCKET}?endpoint={endpoint}&credentials_file={}",
            credentials.display()
        );
        let database = servers.postgres.database();
        let times = times.iter().map(|&flag| flag.to_owned()).collect();
        let cluster = Self {
            servers,
            nats_cluster: None,
            place,
            database,
            objects,
            times,
        };
        let migrate = ["migrate", "--database", &cluster.database];
        let status = Process::start(&cluster.place, &migrate).ended();
        assert!(status.success(), "the schema is not made: {status}");
        cluster
    }

    /// With a cluster of three NATS servers, on which streams have three copies, for every process that starts from now on.
    #[must_use]
    pub fn with_nats_cluster(self) -> Self {
        let nats_cluster = Some(NatsCluster::start());
        Self {
            nats_cluster,
            ..self
        }
    }

    /// The folder of all objects. Beside it the server keeps files of its own.
    #[must_use]
    pub fn bucket(&self) -> PathBuf {
        self.servers.s3.folder().join(BUCKET)
    }

    /// Other flags for every process that starts from now on.
    pub fn set_flags(&mut self, times: &[&str]) {
        self.times = times.iter().map(|&flag| flag.to_owned()).collect();
    }

    /// The flags of every service: where its servers are, and its times.
    #[must_use]
    pub fn flags(&self) -> Vec<String> {
        self.flags_at(&self.database)
    }

    /// The same for a service that reaches the database at another address.
    #[must_use]
    pub fn flags_at(&self, database: &str) -> Vec<String> {
        let mut flags = self.times.clone();
        let nats = match &self.nats_cluster {
            Some(cluster) => {
                flags.extend(["--nats-replicas".to_owned(), "3".to_owned()]);
                cluster.url()
            }
            None => self.servers.nats.url(),
        };
        let places = [
            ("--database", database.to_owned()),
            ("--nats", nats),
            ("--redis", self.servers.redis.url()),
            ("--objects", self.objects.clone()),
        ];
        flags.extend(
            places
                .into_iter()
                .flat_map(|(flag, url)| [flag.to_owned(), url]),
        );
        flags
    }

    fn with<T>(&self, start: impl FnOnce(&Place, &[&str]) -> T) -> T {
        let flags = self.flags();
        start(
            &self.place,
            &flags.iter().map(String::as_str).collect::<Vec<_>>(),
        )
    }

    /// A command with the settings of this cluster.
    #[must_use]
    pub fn process(&self, command: &[&str]) -> Process {
        self.with(|place, flags| Process::start(place, &[command, flags].concat()))
    }

    /// An API.
    #[must_use]
    pub fn api(&self) -> Served {
        self.with(services::api)
    }

    /// A worker and its id.
    #[must_use]
    pub fn worker(&self) -> (Process, String) {
        self.with(services::worker)
    }

    /// A reconciler.
    #[must_use]
    pub fn reconciler(&self) -> Process {
        self.with(services::reconciler)
    }
}
