//! `cargo xtask dependencies`: a new crate beside the database crates that people use. Each must
//! resolve (one program has one SQLite, so that two crates which insist on different ones cannot be in
//! it), and one of them is compiled. sqlx, which insists on the oldest SQLite, is what the tests' own new
//! crate uses. Needs the registry, but for what is in its cache.

use crate::{command, outside, tree};
use std::fs;
use std::path::Path;

const NAME: &str = "beside-others";

/// What a new crate must be able to depend on: with the default features, and with others.
const CRATES: &[&str] = &[
    r#"diesel = { version = "2", features = ["postgres_backend", "sqlite"] }"#,
    r#"rusqlite = "0.37""#,
    r#"rusqlite = "0.38""#,
    r#"rusqlite = "0.39""#,
    r#"rusqlite = "0.40""#,
    r#"sea-orm = { version = "1", features = ["runtime-tokio", "sqlx-postgres", "sqlx-sqlite"] }"#,
    r#"sqlx = "0.8""#,
    r#"sqlx = { version = "0.8", features = ["runtime-tokio", "sqlite"] }"#,
    r#"sqlx = "0.9""#,
    r#"sqlx = { version = "0.9", features = ["postgres", "runtime-tokio"] }"#,
    r#"sqlx = { version = "0.9", features = ["runtime-tokio", "sqlite"] }"#,
    r#"tokio-postgres = "0.7""#,
];

/// What is compiled: a crate between sqlx's SQLite and ours.
const RUSQLITE: &str = r#"rusqlite = { version = "0.37", features = ["bundled"] }"#;

/// What the tests' new crate depends on besides.
const OF_THE_TESTS: &str = "tests/tests/lamp_shop/dependencies.toml";

pub(crate) fn run() -> Result<(), String> {
    let parent = tree::target().join("dependencies");
    let folder = parent.join(NAME);
    if folder.exists() {
        fs::remove_dir_all(&folder)
            .map_err(|error| format!("{} cannot be removed: {error}", folder.display()))?;
    }
    make(&parent)?;
    let top = tree::top();
    let mut new = command::cargo();
    new.args(["run", "--quiet", "--manifest-path"])
        .arg(top.join("Cargo.toml"))
        .args(["--", "new", NAME, "--path"])
        .arg(&top)
        .current_dir(&parent);
    command::output(&mut new)?;

    let new_crate = NewCrate {
        folder: &folder,
        manifest: read(&folder.join("Cargo.toml"))?,
    };
    for line in CRATES {
        new_crate.depend_on(line)?;
    }
    new_crate.depend_on(RUSQLITE)?;
    new_crate.check()
}

/// Fetches what the tests' new crate depends on: it is built without a network.
pub(crate) fn fetch() -> Result<(), String> {
    let folder = tree::target().join("dependencies").join("of-the-tests");
    make(&folder.join("src"))?;
    write(&folder.join("src/lib.rs"), "")?;
    let head =
        "[package]\nname = \"of-the-tests\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n";
    let manifest = head.to_owned() + &tree::text(OF_THE_TESTS)?;
    write(&folder.join("Cargo.toml"), &manifest)?;
    tree::copy(&tree::top().join("Cargo.lock"), &folder.join("Cargo.lock"))?;
    let fetch = |more: &[&str]| {
        let mut cargo = command::cargo();
        cargo
            .args(["fetch", "--quiet"])
            .args(more)
            .current_dir(&folder);
        command::output(&mut cargo).map(drop)
    };
    // What is there already needs no network.
    fetch(&["--offline"]).or_else(|_| fetch(&[]))
}

struct NewCrate<'a> {
    folder: &'a Path,
    manifest: String,
}

impl NewCrate<'_> {
    /// Adds the line to the dependencies, and resolves.
    fn depend_on(&self, line: &str) -> Result<(), String> {
        const HEAD: &str = "\n[dependencies]\n";
        let (before, behind) = self
            .manifest
            .split_once(HEAD)
            .ok_or("the manifest of a new crate has no [dependencies]")?;
        let manifest = format!("{before}{HEAD}{line}\n{behind}");
        write(&self.folder.join("Cargo.toml"), &manifest)?;
        // As in a crate that was built before the dependency was added.
        tree::copy(
            &tree::top().join("Cargo.lock"),
            &self.folder.join("Cargo.lock"),
        )?;
        command::output(outside::cargo(self.folder)?.args(["update", "--workspace", "--quiet"]))
            .map(drop)
            .map_err(|error| format!("a new crate cannot depend on `{line}`: {error}"))
    }

    fn check(&self) -> Result<(), String> {
        // What both depend on was checked by the lints.
        command::run(outside::cargo(self.folder)?.args(["check", "--quiet"]))
    }
}

fn make(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder)
        .map_err(|error| format!("{} cannot be made: {error}", folder.display()))
}

fn read(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
}
