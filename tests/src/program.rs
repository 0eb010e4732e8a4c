//! The programs under test, built from the tree as it is. Must not be an older one that happens to
//! lie around.

use cargo_metadata::Message;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The programs of a deployment.
const PROGRAMS: [&str; 4] = [
    "counterstep",
    "counterstep-api",
    "counterstep-worker",
    "counterstep-reconciler",
];

/// What is run in place of the `counterstep` of this tree.
static CHOSEN: OnceLock<PathBuf> = OnceLock::new();

/// The path of `counterstep`, built on the first call of a test run.
///
/// # Panics
/// When it cannot be built.
pub fn program() -> &'static Path {
    CHOSEN
        .get()
        .map_or_else(|| program_called("counterstep"), PathBuf::as_path)
}

/// The path of one of the programs of a deployment, likewise.
///
/// # Panics
/// When it cannot be built, or is none of them.
// Cargo tells a test where a program is only within the package of the program, and this is another
// package.
pub fn program_called(name: &str) -> &'static Path {
    static BUILT: OnceLock<BTreeMap<String, PathBuf>> = OnceLock::new();
    let built = BUILT.get_or_init(build);
    built
        .get(name)
        .unwrap_or_else(|| panic!("`{name}` is none of {PROGRAMS:?}"))
}

/// Another program than the one that this tree makes, before anything has started one.
///
/// # Panics
/// When one has been started.
pub fn choose(path: PathBuf) {
    CHOSEN
        .set(path)
        .expect("the program is chosen before the first process starts");
}

/// The folder of the profile with which the test that calls was built: `target/{profile}`.
fn profile_folder() -> PathBuf {
    // A test is target/{profile}/deps/system-0123456789abcdef, a program target/{profile}/chaos.
    let own = std::env::current_exe().expect("a test knows its own path");
    let folder = own.parent().expect("a program lies in a folder");
    let folder = if folder.ends_with("deps") {
        folder.parent().expect("the folder of a profile")
    } else {
        folder
    };
    folder.to_owned()
}

/// The folder that cargo builds into.
///
/// # Panics
/// When the program that calls is not in one.
#[must_use]
pub fn target_folder() -> PathBuf {
    profile_folder()
        .parent()
        .expect("the target folder")
        .to_owned()
}

/// A command for a build within a test, without what cargo tells a test of its package: build scripts
/// that ask for it (ring's does) would run again, and a third of the dependencies with them, now and
/// when the tests are built the next time.
pub fn without_package(mut command: Command) -> Command {
    for (name, _) in std::env::vars_os() {
        let of_a_package =
            |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
        if name == "OUT_DIR" || name.to_str().is_some_and(of_a_package) {
            command.env_remove(name);
        }
    }
    command
}

/// Builds into the target folder, and with the profile, of the test that calls: what it needs is
/// built already.
fn build() -> BTreeMap<String, PathBuf> {
    let folder = profile_folder();
    let profile = match folder
        .file_name()
        .and_then(|name| name.to_str())
        .expect("the folder of a profile")
    {
        // What `cargo test` builds lies where `cargo build` puts its own.
        "debug" => "test",
        other => other,
    };
    let cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let mut cargo = without_package(cargo);
    cargo
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        // Locked, so that a test never changes the tree; not offline, because cargo asks for
        // nothing it has.
        .args(["build", "--locked", "--quiet"])
        .args(PROGRAMS.iter().flat_map(|name| ["--bin", *name]))
        // The selection of `cargo xtask test`, and a test with it: any other one unifies features
        // differently, and would build half of the dependencies again, now and when the tests are
        // built the next time.
        .args(["--workspace", "--all-features", "--test", "system"])
        .args([
            "--message-format",
            "json-render-diagnostics",
            "--profile",
            profile,
            "--target-dir",
        ])
        .arg(target_folder())
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    let output = cargo.output().expect("cargo starts");
    assert!(
        output.status.success(),
        "the programs do not build: {}",
        output.status
    );
    Message::parse_stream(output.stdout.as_slice())
        .map(|message| message.expect("cargo writes messages"))
        .filter_map(executable)
        .collect()
}

/// The name and the path in what cargo reports of a program.
fn executable(message: Message) -> Option<(String, PathBuf)> {
    let Message::CompilerArtifact(built) = message else {
        return None;
    };
    let is_program = built.target.is_bin() && !built.profile.test;
    let path = built.executable.filter(|_| is_program)?;
    Some((built.target.name, path.into_std_path_buf()))
}
