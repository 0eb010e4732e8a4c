//! A program on private servers, started as the files that deploy it say: with exactly the command,
//! variables, files and user of its pod, its service or its unit. Only addresses, and the places of
//! folders, are others.

mod own_queues;
mod pods;
mod stack;
mod units;

pub use pods::{Pods, run_pods};
pub use stack::run_stack;
pub use units::run_units;

use crate::api::Api;
use crate::command::{Ended, to_its_end};
use crate::manifests::{Container, Manifests};
use crate::place::Place;
use crate::process::{Launch, Process, is_root};
use crate::program::program_called;
use crate::sample::Sample;
use crate::wait::{SOON, until};
use counterstep_contracts::http::Accepted;
use counterstep_contracts::{TaskId, TaskStatus};
use counterstep_testkit::servers::{Nats, Postgres, Redis, S3};
use reqwest::Method;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A program, and what deploys it.
#[derive(Debug)]
pub struct Deployment {
    /// The files.
    pub manifests: Manifests,
    /// The program.
    pub executable: PathBuf,
    /// A task of one of its types.
    pub submission: Submission,
    /// What makes the tables of the program's own; it may be nothing.
    pub own_tables: &'static str,
    /// Routes of task types with a queue of their own, which take a `number`.
    pub own_queues: &'static [&'static str],
}

/// What a client submits.
#[derive(Debug)]
pub enum Submission {
    /// Files for an archive.
    Files,
    /// A body for the task type of this route.
    Json(&'static str, Value),
}

impl Deployment {
    /// `counterstep` itself.
    #[must_use]
    pub fn shipped() -> Self {
        Self {
            manifests: Manifests::shipped(),
            executable: program_called("counterstep").to_owned(),
            submission: Submission::Files,
            own_tables: "",
            own_queues: &[],
        }
    }

    /// Submits a task and sees it complete.
    ///
    /// # Panics
    /// When it does not.
    pub async fn complete_a_task(&self, api: &Api) {
        let task = match &self.submission {
            Submission::Files => api.submit(&Sample::pair(3, 10_000)).await,
            Submission::Json(route, body) => submit_json(api, route, body).await,
        };
        let ended = api.at_rest(task).await;
        assert_eq!(ended.status, TaskStatus::Completed, "{ended:?}");
    }
}

async fn submit_json(api: &Api, route: &str, body: &Value) -> TaskId {
    let request = api
        .request(Method::POST, &format!("/api/tasks/{route}"))
        .json(body);
    let answer = request.send().await.expect("an answer");
    let text = answer.text().await.expect("a body");
    let accepted: Accepted =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    accepted.task_id
}

/// A PostgreSQL that wants passwords of all but its superuser, with an empty database that belongs
/// to its owner.
#[derive(Debug)]
pub struct Database {
    server: Postgres,
    _rules: TempDir,
}

impl Database {
    fn start(deployment: &Deployment, owner_password: &str) -> Self {
        let name = deployment.manifests.program();
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
        let database = Self {
            server,
            _rules: rules,
        };
        database.run(&format!(
            "CREATE ROLE counterstep_owner LOGIN CREATEROLE PASSWORD '{owner_password}'"
        ));
        database.run(&format!(
            "CREATE DATABASE \"{name}\" OWNER counterstep_owner TEMPLATE template0"
        ));
        // By the migrations of its own, which run as the same role.
        let own = format!("SET ROLE counterstep_owner; {}", deployment.own_tables);
        let own_database = format!("postgres://postgres@{}/{name}", database.address());
        let done = database.server.run_sql(&own_database, &own);
        done.expect("the tables of the program's own");
        database
    }

    fn run(&self, sql: &str) {
        let done = self.server.run_sql(&self.server.url(), sql);
        done.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// As an administrator does after the roles were made.
    fn set_password(&self, role: &str, password: &str) {
        self.run(&format!("ALTER ROLE {role} PASSWORD '{password}'"));
    }

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.server.port())
    }

    /// Where it is, for a client that finds it by variables.
    fn set_address(&self, launch: &mut Launch) {
        for (name, value) in &mut launch.variables {
            if name == "PGHOST" {
                "127.0.0.1".clone_into(value);
            }
        }
        let port = self.server.port().to_string();
        launch.variables.push(("PGPORT".to_owned(), port));
    }
}

/// The folders that containers and units see, in a temporary one, and the texts of manifests with
/// the addresses of private servers.
#[derive(Debug)]
struct Ground {
    place: Place,
    program: String,
    rewrites: Vec<(String, String)>,
    user: u32,
}

impl Ground {
    fn new(deployment: &Deployment) -> Self {
        let place = Place::new();
        // Other users find their files in it.
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(place.path(), open).expect("rights");
        let program = deployment.manifests.program().to_owned();
        let programs = place.path().join("bin");
        std::fs::create_dir(&programs).expect("a folder");
        let copy = programs.join(&program);
        // A copy where the two are on different disks, and that one which its user can reach.
        if std::fs::hard_link(&deployment.executable, &copy).is_err() {
            // By a process of its own: a program that another test starts inherits what this process has open for writing, and
            // the system executes no file that is.
            let copied = Command::new("cp")
                .arg(&deployment.executable)
                .arg(&copy)
                .status();
            assert!(copied.expect("cp runs").success(), "the program is copied");
        }
        let at = |name: &str| path_text(&place.path().join(name));
        let rewrites = vec![
            (format!("/etc/{program}"), at("etc")),
            (format!("/run/secrets/{program}"), at("secrets")),
            (format!("/var/lib/{program}"), at("data")),
            ("/usr/local/bin/".to_owned(), at("bin/")),
            ("0.0.0.0:8080".to_owned(), "127.0.0.1:0".to_owned()),
            ("127.0.0.1:8080".to_owned(), "127.0.0.1:0".to_owned()),
            ("0.0.0.0:9090".to_owned(), "127.0.0.1:0".to_owned()),
        ];
        let user = deployment.manifests.image_user();
        let ground = Self {
            place,
            program,
            rewrites,
            user,
        };
        ground.own_folder("data");
        ground
    }

    /// What stands in the manifests, and what stands for it here. Longer texts before those that they
    /// begin with.
    fn rewrite(&mut self, from: &str, to: impl Into<String>) {
        self.rewrites.push((from.to_owned(), to.into()));
    }

    fn text(&self, text: &str) -> String {
        let replaced = |text: String, (from, to): &(String, String)| text.replace(from, to);
        self.rewrites.iter().fold(text.to_owned(), replaced)
    }

    /// A folder that the program may write to.
    fn own_folder(&self, name: &str) {
        let folder = self.place.path().join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o750)).expect("rights");
        if is_root() {
            chown(&folder, Some(self.user), Some(self.user)).expect("an owner");
        }
    }

    /// Writes a file where a manifest says that it is. Its program may read it and others may not: as
    /// `defaultMode` of the volumes, and what README.md says of files in /etc.
    fn write(&self, path: &str, text: &str) {
        let path = PathBuf::from(self.text(path));
        assert!(
            path.starts_with(self.place.path()),
            "{}: not in the temporary folder",
            path.display()
        );
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(&path, text).expect("a file");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o440)).expect("rights");
        if is_root() {
            chown(&path, None, Some(self.user)).expect("a group");
        }
    }

    /// How a container is started: its program is the one that its `PATH` finds, and the name of the
    /// container is that of its host.
    fn launch(&self, container: &Container) -> Launch {
        let mut words = container.command.iter().map(|word| self.text(word));
        let program = words.next().expect("a program");
        let own = self.place.path().join("bin");
        let is_own = program == self.program;
        let mut variables: Vec<_> = container
            .variables
            .iter()
            .map(|(name, value)| (name.clone(), self.text(value)))
            .collect();
        let path = std::env::var("PATH").expect("a path");
        variables.push(("PATH".to_owned(), format!("{}:{path}", own.display())));
        variables.push(("HOSTNAME".to_owned(), container.name.replace('/', "-")));
        Launch {
            program: if is_own {
                own.join(&program)
            } else {
                program.into()
            },
            arguments: words.collect(),
            variables,
            user: container.user,
        }
    }

    fn begin(&self, launch: &Launch) -> Process {
        Process::launch(&self.place, launch)
    }

    /// SIGTERM, and an end that is none of a failure. The process runs as its user until then.
    fn stop(&self, process: Process, what: &str) {
        if is_root() {
            let own = std::fs::metadata(format!("/proc/{}", process.pid())).expect("a process");
            assert_eq!(own.uid(), self.user, "the user of {what}");
        }
        let ended = process.stop();
        assert!(ended.success(), "{what}: {ended}");
    }

    fn run(&self, launch: &Launch) -> Ended {
        to_its_end(self.place.path(), launch.command())
    }
}

/// The API of a process that logs as JSON, once it is ready, for the holder of a key that was made with
/// the same settings.
async fn ready(ground: &Ground, launch: &Launch, process: &mut Process) -> Api {
    let address = process.says("its address", |said| {
        let (_, after) = said.split_once(r#""address":""#)?;
        Some(after.split_once('"')?.0.to_owned())
    });
    let api = Api::at(&address);
    until("an API that is ready", SOON, || async {
        let ready = api.request(Method::GET, "/readyz").send().await.ok()?;
        ready.status().is_success().then_some(())
    })
    .await;
    let locked = api.request(Method::GET, "/api/tasks").send().await;
    assert_eq!(locked.expect("an answer").status(), 401, "without a key");
    let mut arguments = vec!["keys", "create", "--subject", "tests", "--role", "admin"];
    let config = launch.arguments.iter().position(|it| it == "--config");
    let config = config.map_or(&[][..], |at| &launch.arguments[at..at + 2]);
    arguments.extend(config.iter().map(String::as_str));
    let making = Launch {
        program: launch.program.clone(),
        arguments: arguments.into_iter().map(str::to_owned).collect(),
        variables: launch.variables.clone(),
        user: launch.user,
    };
    let made = ground.run(&making);
    api.with_key(made.assert_code(0).stdout.trim())
}

/// The log has this in it.
fn says(process: &mut Process, what: &str) {
    process.says(what, |said| said.contains(what).then_some(()));
}

/// A Redis that wants a password.
fn redis_with(password: &str) -> Redis {
    let redis = Redis::start();
    let mut socket = TcpStream::connect(("127.0.0.1", redis.port())).expect("Redis");
    let command = format!("CONFIG SET requirepass {password}\r\n");
    socket
        .write_all(command.as_bytes())
        .expect("a command is sent");
    let mut answer = [0; 5];
    socket.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"+OK\r\n", "{command}");
    redis
}

/// The kinds of processes that have users of NATS.
const KINDS: [&str; 4] = ["api", "worker", "reconciler", "operator"];

/// A NATS with the users of the deployment; `password`: that of a kind.
fn nats_with(deployment: &Deployment, password: impl Fn(&str) -> String) -> Nats {
    let accounts = deployment.manifests.text("nats/accounts.conf");
    let accounts = KINDS.iter().fold(accounts, |text, kind| {
        let variable = format!("$COUNTERSTEP_NATS_{}_PASSWORD", kind.to_uppercase());
        assert!(text.contains(&variable), "{variable}");
        text.replace(&variable, &password(kind))
    });
    Nats::with_lines(&accounts)
}

/// The keys of an object store, as a file that settings name.
fn credentials(s3: &S3) -> String {
    format!(
        "aws_access_key_id = {}\naws_secret_access_key = {}\n",
        s3.access_key(),
        s3.secret_key()
    )
}

fn path_text(path: &Path) -> String {
    path.to_str().expect("UTF-8").to_owned()
}
