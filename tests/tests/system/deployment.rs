//! What `deploy/` ships is started as it stands there: each program with exactly the variables,
//! arguments and files of its pod or unit, on private servers that ask for the passwords. Only the
//! addresses are others.

use counterstep_contracts::Host;
use counterstep_testkit::servers::{Nats, Postgres, Redis, S3};
use counterstep_tests::api::Api;
use counterstep_tests::command::{Ended, to_its_end};
use counterstep_tests::manifests::{self, Container};
use counterstep_tests::place::Place;
use counterstep_tests::process::Process;
use counterstep_tests::program::program_called;
use counterstep_tests::wait::{SOON, until};
use reqwest::Method;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A PostgreSQL that wants passwords of all but its superuser, with an empty database that belongs
/// to its owner.
struct Database {
    server: Postgres,
    _rules: TempDir,
}

impl Database {
    fn start(owner_password: &str) -> Self {
        // The server's account has to read it.
        let open = std::fs::Permissions::from_mode(0o755);
        let rules = tempfile::Builder::new()
            .permissions(open)
            .tempdir()
            .expect("a folder");
        let file = rules.path().join("hba.conf");
        let lines =
            "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n";
        std::fs::write(&file, lines).expect("the rules are written");
        let server = Postgres::with_settings(&[
            ("hba_file", file.to_str().expect("UTF-8")),
            ("fsync", "off"),
        ]);
        let run = |url: &str, sql: &str| {
            server
                .run_sql(url, sql)
                .unwrap_or_else(|error| panic!("{sql}: {error}"))
        };
        run(
            &server.url(),
            &format!("CREATE ROLE counterstep_owner LOGIN CREATEROLE PASSWORD '{owner_password}'"),
        );
        run(
            &server.url(),
            "CREATE DATABASE counterstep OWNER counterstep_owner TEMPLATE template0",
        );
        Self {
            server,
            _rules: rules,
        }
    }

    /// As an administrator does after the roles were made.
    fn set_service_password(&self, password: &str) {
        let sql = format!("ALTER ROLE counterstep_service PASSWORD '{password}'");
        self.server
            .run_sql(&self.server.url(), &sql)
            .expect("the role is there");
    }
}

/// Texts of the manifests with the addresses of private servers and folders.
struct Rewrite(Vec<(&'static str, String)>);

impl Rewrite {
    fn text(&self, text: &str) -> String {
        self.0
            .iter()
            .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    }

    /// Program, arguments and variables of a container; `PATH` and the name of the pod are in every
    /// one.
    fn container(&self, container: &Container) -> (String, Vec<String>, Vec<(String, String)>) {
        let mut words = container.command.iter().map(|word| self.text(word));
        let program = words.next().expect("a program");
        let mut variables: Vec<_> = container
            .variables
            .iter()
            .map(|(name, value)| (name.clone(), self.text(value)))
            .collect();
        variables.push(("PATH".to_owned(), std::env::var("PATH").expect("a path")));
        variables.push(("HOSTNAME".to_owned(), container.name.replace('/', "-")));
        (program, words.collect(), variables)
    }
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    std::fs::write(path, text).expect("a file");
    // As `defaultMode` of the volumes, and what README.md says of files in /etc.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o440)).expect("rights");
}

fn path_text(path: PathBuf) -> String {
    path.to_str().expect("UTF-8").to_owned()
}

/// Everything that the pods need, and the pods.
struct Cluster {
    place: Place,
    objects: Vec<Value>,
    rewrite: Rewrite,
    database: Database,
    nats: Nats,
    _redis: Redis,
    _objects: S3,
}

impl Cluster {
    fn start() -> Self {
        let (place, objects) = (Place::new(), manifests::objects());
        let secrets = manifests::secret(&objects, "counterstep-secrets");
        let secret = |key: &str| secrets[key].as_str().expect("a secret").to_owned();
        // The owner's password is part of a URL in the example: the same as the others.
        let database = Database::start(&secret("database-password"));
        let accounts = manifests::text("nats/accounts.conf");
        let nats = Nats::with_lines(
            &accounts.replace("$COUNTERSTEP_NATS_PASSWORD", &secret("nats-password")),
        );
        let redis = Redis::start();
        tell_redis(
            &redis,
            &format!("CONFIG SET requirepass {}", secret("redis-password")),
        );
        let s3 = S3::start(&["counterstep"]);
        let at = |name: &str| path_text(place.path().join(name));
        let rewrite = Rewrite(vec![
            (
                "postgres.databases.svc",
                format!("127.0.0.1:{}", database.server.port()),
            ),
            ("?sslmode=verify-full", String::new()),
            ("?sslmode=require", String::new()),
            ("tls://nats.messaging.svc:4222", nats.url()),
            ("rediss://redis.caches.svc:6379", redis.url()),
            ("https://s3.example.org", s3.endpoint()),
            ("0.0.0.0:8080", "127.0.0.1:0".to_owned()),
            ("/etc/counterstep", at("etc")),
            ("/run/secrets/counterstep", at("secrets")),
            ("/var/lib/counterstep", at("data")),
            (
                "/roles/",
                format!("{}/", path_text(manifests::folder().join("postgres"))),
            ),
        ]);
        for (name, value) in secrets.as_object().expect("keys") {
            let keys = format!(
                "aws_access_key_id = {}\naws_secret_access_key = {}\n",
                s3.access_key(),
                s3.secret_key()
            );
            let value = if name == "s3-credentials" {
                &keys
            } else {
                value.as_str().expect("a text")
            };
            write(&place.path().join("secrets").join(name), value);
        }
        let settings = manifests::of_kind(&objects, "ConfigMap")
            .next()
            .expect("the settings");
        let text = settings["data"]["counterstep.toml"]
            .as_str()
            .expect("a file");
        write(
            &place.path().join("etc/counterstep.toml"),
            &rewrite.text(text),
        );
        Self {
            place,
            objects,
            rewrite,
            database,
            nats,
            _redis: redis,
            _objects: s3,
        }
    }

    fn containers(&self, of: &str) -> Vec<Container> {
        let mut found = manifests::containers(&self.objects);
        found.retain(|container| container.name.starts_with(of));
        assert!(!found.is_empty(), "{of}");
        found
    }

    fn begin(&self, container: &Container) -> Process {
        let (program, arguments, variables) = self.rewrite.container(container);
        Process::start_exactly(
            &self.place,
            program_called(&program),
            &arguments,
            &variables,
        )
    }

    fn run(&self, container: &Container) -> Ended {
        let (program, arguments, variables) = self.rewrite.container(container);
        let ours = program.starts_with("counterstep");
        let mut command = if ours {
            Command::new(program_called(&program))
        } else {
            Command::new(&program)
        };
        command.args(arguments).env_clear().envs(variables);
        to_its_end(self.place.path(), command)
    }
}

fn tell_redis(redis: &Redis, command: &str) {
    let mut socket = TcpStream::connect(("127.0.0.1", redis.port())).expect("Redis");
    socket
        .write_all(format!("{command}\r\n").as_bytes())
        .expect("a command is sent");
    let mut answer = [0; 5];
    socket.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"+OK\r\n", "{command}");
}

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
    let cluster = Cluster::start();
    for container in cluster.containers("counterstep-migrate/") {
        cluster.run(&container).assert_code(0);
    }
    let secrets = manifests::secret(&cluster.objects, "counterstep-secrets");
    cluster
        .database
        .set_service_password(secrets["database-password"].as_str().expect("a password"));

    let mut api = cluster.begin(&cluster.containers("counterstep-api/")[0]);
    let address = api.says("its address", |said| {
        Some(
            said.split_once(r#""address":""#)?
                .1
                .split_once('"')?
                .0
                .to_owned(),
        )
    });
    let api = (Api::at(&address), api);
    until("an API that is ready", SOON, || async {
        let ready = api.0.request(Method::GET, "/readyz").send().await.ok()?;
        ready.status().is_success().then_some(())
    })
    .await;
    for container in cluster.containers("counterstep-worker") {
        let mut worker = cluster.begin(&container);
        worker.says("that it has started", |said| {
            said.contains("worker started").then_some(())
        });
        assert!(worker.stop().success(), "{container:?}");
    }
    let pass = cluster.run(&cluster.containers("counterstep-reconciler/")[0]);
    pass.assert_code(0);

    // The alarm of docs/operations.md: each pass that runs alone sets the figure, and all of them
    // are one row.
    cluster
        .run(&cluster.containers("counterstep-reconciler/")[0])
        .assert_code(0);
    let metrics = api
        .0
        .request(Method::GET, "/metrics")
        .send()
        .await
        .expect("an answer");
    let metrics = metrics.text().await.expect("a body");
    assert!(
        metrics.contains("\ncounterstep_last_pass_age_seconds "),
        "{metrics}"
    );
    let workers = read(format!("{}/api/workers", api.0.url())).await;
    let rows = workers["workers"]
        .as_array()
        .expect("rows")
        .iter()
        .filter(|worker| worker["role"] == "reconciler");
    assert_eq!(rows.count(), 1, "{workers}");

    let mut watched = BTreeSet::new();
    for object in manifests::of_kind(&cluster.objects, "ScaledObject") {
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
                cluster.nats.monitor_url()
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
    assert_eq!(watched, queues(), "each queue has its trigger");
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
    for containers in [
        manifests::containers(&manifests::objects()),
        manifests::composed(),
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
    let objects = manifests::objects();
    let policies = manifests::of_kind(&objects, "NetworkPolicy");
    let of_the_api = |policy: &&Value| {
        policy["spec"]["podSelector"]["matchLabels"]["app.kubernetes.io/name"] == "counterstep-api"
    };
    let policy = policies
        .into_iter()
        .find(of_the_api)
        .expect("a policy of the API");
    let rules = policy["spec"]["ingress"].as_array().expect("rules").iter();
    let lets_in = |rule: &&Value| {
        rule["ports"][0]["port"] == "http"
            && rule["from"][0]["podSelector"]["matchLabels"]["app.kubernetes.io/name"]
                == "prometheus"
            && rule["from"][0]["namespaceSelector"]["matchLabels"]["counterstep/monitoring"]
                == "true"
    };
    assert_eq!(rules.filter(lets_in).count(), 1, "{policy}");
}

#[test]
fn the_migration_of_systemd_runs_as_the_owner_beside_the_settings_of_the_services() {
    let (place, database) = (Place::new(), Database::start("owners-password"));
    let etc = place.path().join("etc");
    let at = |name: &str| path_text(place.path().join(name));
    let rewrite = Rewrite(vec![
        (
            "db.example.org",
            format!("127.0.0.1:{}", database.server.port()),
        ),
        ("?sslmode=verify-full", String::new()),
        ("?sslmode=require", String::new()),
        ("/etc/counterstep", at("etc")),
        ("/var/lib/counterstep", at("data")),
    ]);
    write(
        &etc.join("counterstep.toml"),
        &rewrite.text(&manifests::text("counterstep.example.toml")),
    );
    write(&etc.join("database-password"), "services-password\n");

    let command = manifests::unit("systemd/counterstep-migrate.service", "ExecStart").remove(0);
    let words: Vec<String> = command.split(' ').map(|word| rewrite.text(word)).collect();
    let named = manifests::unit("systemd/counterstep-migrate.service", "EnvironmentFile").remove(0);
    let url = format!(
        "postgres://counterstep_owner:owners-password@127.0.0.1:{}/counterstep",
        database.server.port()
    );
    write(
        Path::new(&rewrite.text(&named)),
        &format!("COUNTERSTEP_DATABASE={url}\n"),
    );
    let variables = manifests::environment(
        &std::fs::read_to_string(rewrite.text(&named)).expect("the owner's file"),
    );

    let program = Path::new(&words[0])
        .file_name()
        .and_then(|name| name.to_str())
        .expect("a program");
    let mut migrate = Command::new(program_called(program));
    migrate.args(&words[1..]).env_clear().envs(&variables);
    let ended = to_its_end(place.path(), migrate);
    ended.assert_code(0);
    assert!(!format!("{ended:?}").contains("password@"), "{ended:?}");
}

#[test]
fn a_program_starts_beside_the_service_links_of_a_pod_that_has_them() {
    let (place, links) = (
        Place::new(),
        manifests::service_links(&manifests::objects()),
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
