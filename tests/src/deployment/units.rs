//! The units of `deploy/systemd`, with the example of settings that they name.

use super::{Database, Deployment, Ground, credentials, ready, redis_with, says};
use crate::manifests::environment;
use crate::process::Launch;
use counterstep_testkit::servers::{Nats, S3};
use std::path::{Path, PathBuf};

/// A user's credentials in the form of NATS: the server here asks for none.
const NATS_CREDENTIALS: &str = "-----BEGIN NATS USER JWT-----
eyJ0eXAiOiJKV1QiLCJhbGciOiJlZDI1NTE5LW5rZXkifQ.e30.c2ln
------END NATS USER JWT------

-----BEGIN USER NKEY SEED-----
SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY
------END USER NKEY SEED------
";

/// The kinds of units that have secrets, each in a folder that no other unit names.
const KINDS: [&str; 3] = ["api", "worker", "reconciler"];

const OWNER_PASSWORD: &str = "owners-password";
const REDIS_PASSWORD: &str = "redis-password";

/// Migrates, starts the services, completes a task, and stops.
///
/// # Panics
/// When anything of it does not happen.
pub async fn run_units(deployment: &Deployment) {
    let program = deployment.manifests.program();
    let database = Database::start(deployment, OWNER_PASSWORD);
    let (nats, redis, s3) = (
        Nats::start(),
        redis_with(REDIS_PASSWORD),
        S3::start(&[program]),
    );
    let mut ground = Ground::new(deployment);
    ground.rewrite("db.example.org", database.address());
    ground.rewrite("?sslmode=verify-full", "");
    for number in 1..=3 {
        ground.rewrite(&format!("tls://nats-{number}.example.org:4222"), nats.url());
    }
    ground.rewrite("rediss://redis.example.org:6379", redis.url());
    ground.rewrite("https://s3.example.org", s3.endpoint());
    let etc = |name: &str| format!("/etc/{program}/{name}");
    let settings = deployment
        .manifests
        .text(&format!("{program}.example.toml"));
    ground.write(&etc(&format!("{program}.toml")), &ground.text(&settings));
    for kind in KINDS {
        let own = |name: &str| etc(&format!("{kind}/{name}"));
        let url = format!(
            "postgres://counterstep_{kind}:password-of-{kind}@{}/{program}",
            database.address()
        );
        ground.write(&own("database"), &format!("{url}\n"));
        ground.write(&own("redis"), &format!("{REDIS_PASSWORD}\n"));
        ground.write(&own("nats"), NATS_CREDENTIALS);
        ground.write(&own("objects"), &credentials(&s3));
    }
    let owner = format!(
        "postgres://counterstep_owner:{OWNER_PASSWORD}@{}/{program}",
        database.address()
    );
    ground.write(
        &etc("owner.env"),
        &format!("COUNTERSTEP_DATABASE={owner}\n"),
    );

    let unit = |name: &str, instance: &str| Unit::read(deployment, name, instance);
    let migrated = ground.run(&unit("migrate", "").launch(&ground));
    migrated.assert_code(0);
    assert!(
        !format!("{migrated:?}").contains("password@"),
        "{migrated:?}"
    );
    grant(deployment, &ground, &owner);
    for kind in KINDS {
        database.set_password(
            &format!("counterstep_{kind}"),
            &format!("password-of-{kind}"),
        );
    }

    // It creates the streams.
    let pass = unit("reconciler", "").launch(&ground);
    ground.run(&pass).assert_code(0);
    let launch = unit("api", "").launch(&ground);
    let mut api = ground.begin(&launch);
    let client = ready(&ground, &launch, &mut api).await;
    let mut workers = Vec::new();
    for instance in ["1", "2"] {
        let mut worker = ground.begin(&unit("worker@", instance).launch(&ground));
        says(&mut worker, "worker started");
        workers.push(worker);
    }
    deployment.complete_a_task(&client).await;
    ground.run(&pass).assert_code(0);
    for worker in workers {
        ground.stop(worker, "a worker");
    }
    ground.stop(api, "the API");
}

/// Step 2 of deploy/README.md.
fn grant(deployment: &Deployment, ground: &Ground, owner: &str) {
    let file = super::path_text(&ground.place.path().join("roles.sql"));
    ground.write(&file, &deployment.manifests.text("postgres/roles.sql"));
    let roles = ["--set", "ON_ERROR_STOP=1", "--file", &file, owner];
    let launch = Launch {
        program: "psql".into(),
        arguments: roles.map(str::to_owned).to_vec(),
        variables: vec![("PATH".to_owned(), std::env::var("PATH").expect("a path"))],
        user: None,
    };
    ground.run(&launch).assert_code(0);
}

/// What of a unit decides how its program runs.
struct Unit {
    command: Vec<String>,
    variables: Vec<String>,
    files: Vec<String>,
    state: String,
    user: String,
}

impl Unit {
    fn read(deployment: &Deployment, name: &str, instance: &str) -> Self {
        let manifests = &deployment.manifests;
        let path = format!("systemd/{}-{name}.service", manifests.program());
        let key = |key: &str| -> Vec<String> {
            let values = manifests.unit(&path, key).into_iter();
            values.map(|value| value.replace("%i", instance)).collect()
        };
        let one = |name: &str| {
            key(name)
                .into_iter()
                .next()
                .unwrap_or_else(|| panic!("{path}: no {name}"))
        };
        let user = one("User");
        let accounts = manifests.text(&format!("systemd/{}.sysusers", manifests.program()));
        assert!(
            accounts.contains(&format!("\nu {user} ")),
            "{path}: {user}, {accounts}"
        );
        assert_eq!(one("Group"), user, "{path}");
        let of = format!("{}-{}", manifests.program(), name.trim_end_matches('@'));
        assert_eq!(user, of, "{path}: a user of its own");
        let group = format!("\nm {user} {}\n", manifests.program());
        assert!(
            accounts.contains(&group),
            "{path}: it reads the settings: {accounts}"
        );
        for other in KINDS.iter().filter(|kind| !of.ends_with(**kind)) {
            let theirs = format!("/etc/{}/{other}/", manifests.program());
            let text = manifests.text(&path);
            assert!(!text.contains(&theirs), "{path} names {theirs}");
        }
        Self {
            command: one("ExecStart").split(' ').map(str::to_owned).collect(),
            variables: key("Environment"),
            files: key("EnvironmentFile"),
            state: one("StateDirectory"),
            user,
        }
    }

    /// As systemd starts it: with the folder of `StateDirectory`, and what a service of a user has.
    fn launch(&self, ground: &Ground) -> Launch {
        let state = ground.text(&format!("/var/lib/{}", self.state));
        let name = Path::new(&state).file_name().expect("a folder");
        ground.own_folder(name.to_str().expect("UTF-8"));
        let mut variables = vec![
            ("PATH".to_owned(), std::env::var("PATH").expect("a path")),
            ("USER".to_owned(), self.user.clone()),
            ("LOGNAME".to_owned(), self.user.clone()),
            (
                "HOME".to_owned(),
                ground.text(&format!("/var/lib/{}", ground.program)),
            ),
            ("STATE_DIRECTORY".to_owned(), state),
        ];
        let files = self.files.iter().map(|file| {
            let file = ground.text(file);
            std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file}: {error}"))
        });
        let lines: Vec<String> = self.variables.iter().cloned().chain(files).collect();
        for (name, value) in environment(&lines.join("\n")) {
            variables.push((name, ground.text(&value)));
        }
        let mut words = self.command.iter().map(|word| ground.text(word));
        Launch {
            program: PathBuf::from(words.next().expect("a program")),
            arguments: words.collect(),
            variables,
            user: Some(ground.user),
        }
    }
}
