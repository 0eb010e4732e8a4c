//! What a new crate is made of. The sources are in `crates/counterstep/new`, for a program called
//! `my-app`; how it is deployed is this repository's own `deploy/`, with the program's name replaced
//! and without what is there for the shipped task types. A link in `new` leads to it: what a crate
//! includes must be below its own folder to be packed with it.

use super::name::ProgramName;
use crate::cli::deploy::render::{Facts, RENDERED, render};
use counterstep_contracts::QueueName;

/// Where the new crate gets Counterstep from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// Its git repository.
    Repository,
    /// A checkout in this folder.
    Checkout(String),
}

/// A file to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Written {
    /// In the folder of the crate.
    pub(super) path: String,
    pub(super) text: String,
}

const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");

/// Where the lines begin and end that are there for the shipped task types.
pub(super) const SHIPPED_ONLY: &str = "# shipped only";
pub(super) const END_OF_SHIPPED_ONLY: &str = "# end of shipped only";

/// The queue of the new crate's own type, `Checkout`.
const QUEUE: &str = "checkout";

macro_rules! crate_files {
    ($($path:literal from $template:literal,)*) => {
        &[$(($path, include_str!(concat!("../../../new/", $template)))),*]
    };
}

macro_rules! deploy_files {
    ($($path:literal,)*) => {
        &[$(($path, include_str!(concat!("../../../new/deploy/", $path)))),*]
    };
}

/// The crate, by path and text.
pub(super) const CRATE: &[(&str, &str)] = crate_files![
    ".github/workflows/ci.yml" from "ci.yml",
    ".gitignore" from "gitignore.in",
    "AGENTS.md" from "AGENTS.md.in",
    "Cargo.toml" from "Cargo.toml.in",
    "README.md" from "README.md.in",
    "src/checkout.rs" from "src/checkout.rs",
    "src/lib.rs" from "src/lib.rs",
    "src/main.rs" from "src/main.rs",
    "src/stock.rs" from "src/stock.rs",
    "tests/checkout.rs" from "tests/checkout.rs",
];

/// Of `deploy/`, what a program of one's own is deployed by.
pub(super) const DEPLOY: &[(&str, &str)] = deploy_files![
    "Dockerfile",
    "Dockerfile.dockerignore",
    "compose.yaml",
    "counterstep.example.toml",
    "grafana/counterstep.json",
    "kubernetes/api.yaml",
    "kubernetes/kustomization.yaml",
    "kubernetes/migrate.yaml",
    "kubernetes/namespace.yaml",
    "kubernetes/network.yaml",
    "kubernetes/reconciler.yaml",
    "kubernetes/secrets.example.yaml",
    "kubernetes/settings.yaml",
    "kubernetes/worker-scaling.yaml",
    "kubernetes/worker.yaml",
    "nats/accounts.conf",
    "nats/nats.conf",
    "postgres/kustomization.yaml",
    "postgres/roles.sql",
    "prometheus/alerts.yaml",
    "systemd/counterstep-api.service",
    "systemd/counterstep-migrate.service",
    "systemd/counterstep-reconciler.service",
    "systemd/counterstep-reconciler.timer",
    "systemd/counterstep-worker@.service",
    "systemd/counterstep.sysusers",
];

/// All files of a new crate.
pub(super) fn files(name: &ProgramName, source: &Source) -> Vec<Written> {
    let of_crate = CRATE.iter().map(|(path, template)| Written {
        path: (*path).to_owned(),
        text: crate_file(template, name, source),
    });
    let of_deploy = DEPLOY.iter().map(|(path, template)| Written {
        path: format!("deploy/{}", renamed(path, name.as_str())),
        text: renamed(&rendered(path, without_shipped(template)), name.as_str()),
    });
    of_crate.chain(of_deploy).collect()
}

/// As `deploy render` of the new program writes it.
pub(super) fn rendered(path: &str, text: String) -> String {
    if !RENDERED.contains(&path) {
        return text;
    }
    let queue = QueueName(QUEUE.to_owned());
    let facts = Facts {
        program: "counterstep".to_owned(),
        api: vec![QueueName(format!("{QUEUE}.api"))],
        workers: vec![queue.clone(), queue.backlog()],
        tables: Vec::new(),
        nats_prefix: None,
    };
    render(&text, &facts).unwrap_or_else(|why| panic!("{path}: {why}"))
}

fn crate_file(template: &str, name: &ProgramName, source: &Source) -> String {
    let text = template
        .replace("my-app", name.as_str())
        .replace("my_app", &name.identifier())
        .replace("REPOSITORY", REPOSITORY);
    let Source::Checkout(folder) = source else {
        return text;
    };
    // As a basic string of TOML.
    let folder = folder.replace('\\', "\\\\").replace('"', "\\\"");
    let packages = [
        ("counterstep", "counterstep"),
        ("counterstep-testkit", "testkit"),
    ];
    packages.iter().fold(text, |text, (package, within)| {
        text.replace(
            &format!("{package} = {{ git = \"{REPOSITORY}\""),
            &format!("{package} = {{ path = \"{folder}/crates/{within}\""),
        )
    })
}

/// The text without the lines between the two marks.
pub(super) fn without_shipped(text: &str) -> String {
    let mut is_shipped = false;
    let mut kept = String::new();
    for line in text.lines() {
        match line.trim() {
            SHIPPED_ONLY => is_shipped = true,
            END_OF_SHIPPED_ONLY => is_shipped = false,
            _ if is_shipped => {}
            _ => {
                kept.push_str(line);
                kept.push('\n');
            }
        }
    }
    kept
}

/// The text with another program's name where it names the program `counterstep`. What is
/// Counterstep's own keeps its name: the roles and functions of the database (`counterstep_..`), the
/// streams that the program makes, and the address of the repository.
pub(super) fn renamed(text: &str, name: &str) -> String {
    const OLD: &str = "counterstep";
    let mut made = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(OLD) {
        let (before, after) = (&rest[..at], &rest[at + OLD.len()..]);
        made.push_str(before);
        let is_stream = ["-work", "-events"].iter().any(|stream| {
            after
                .strip_prefix(stream)
                .is_some_and(|after| !after.starts_with(|c: char| c.is_ascii_alphanumeric()))
        });
        let is_address = made.ends_with("github.com/") || made.ends_with("github.com/counterstep/");
        let keeps = after.starts_with('_') || is_stream || is_address;
        made.push_str(if keeps { OLD } else { name });
        rest = after;
    }
    made.push_str(rest);
    made
}
