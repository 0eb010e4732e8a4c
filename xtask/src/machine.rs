//! What the tests need from the machine besides Rust: looked for, and on Debian installed when we
//! may.

use crate::{command, tree};
use std::path::{Path, PathBuf};

/// Where servers are besides `PATH`.
const FOLDERS: &[&str] = &["/usr/sbin", "/usr/local/sbin", "/sbin"];
/// Debian keeps PostgreSQL's programs off the path, in `{version}/bin` below this folder.
const POSTGRESQL: &str = "/usr/lib/postgresql";
/// Debian asks this program, where there is one, before a package starts a service.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// The emulator of Azure Blob Storage, from npm. Later versions need a Node.js that Debian does not
/// have yet.
const AZURITE: &str = "3.35.0";

/// What looks for barriers in the operator's page, from npm. A tool of the tests: nothing of it is shipped.
const AXE: &str = "4.14.1";

/// What generates a client for TypeScript from the document of the API, and what such a client is run with, from npm.
const OPENAPI_TYPESCRIPT: [(&str, &str); 3] = [
    ("openapi-typescript", "7.13.0"),
    ("openapi-fetch", "0.17.0"),
    ("typescript", "5.9.3"),
];

/// What is installed with pip, each with a list of all versions: Schemathesis drives the API from its document, two generate
/// clients for Python, TypeScript and Go from it, and the last is the protocol's own library for clients of `counterstep mcp`.
const REQUIREMENTS: [(&str, &str); 4] = [
    ("openapi-generator", "tests/openapi/openapi-generator.txt"),
    ("schemathesis", "tests/openapi/requirements.txt"),
    (
        "openapi-python-client",
        "tests/openapi/openapi-python-client.txt",
    ),
    ("mcp", "tests/openapi/mcp.txt"),
];

struct Need {
    program: &'static str,
    packages: &'static [&'static str],
    why: &'static str,
    /// What its package would start with the machine.
    service: Option<&'static str>,
}

const NEEDS: &[Need] = &[
    need(
        "cc",
        &["gcc", "libc6-dev"],
        "the bundled SQLite is compiled from C",
    ),
    need(
        "go",
        &["golang-go", "golang-gopkg-validator.v2-dev"],
        "a client for Go that is generated from the document of the API makes a call",
    ),
    need(
        "unzip",
        &["unzip"],
        "a finished archive is opened with a program that is not ours",
    ),
    need(
        "curl",
        &["curl"],
        "commands of the documents are typed as they stand there",
    ),
    need(
        "ffmpeg",
        &["ffmpeg"],
        "videos are made, and rendered, with it",
    ),
    need(
        "ffprobe",
        &["ffmpeg"],
        "the renditions are looked at with it",
    ),
    need(
        "chromium-headless-shell",
        &["chromium-headless-shell"],
        "a real browser uses the operator's page, and tries what pages of other sites can do with the API",
    ),
    need(
        "setpriv",
        &["util-linux"],
        "the tests' servers end with the tests",
    ),
    need(
        "faketime",
        &["faketime"],
        "a process of a chaos run has a wrong clock",
    ),
    need(
        "strace",
        &["strace"],
        "what a program asks of the kernel is recorded for power cuts",
    ),
    need(
        "openssl",
        &["openssl"],
        "the tests' TLS servers need certificates",
    ),
    need(
        "postgres",
        &["postgresql"],
        "tests start a private PostgreSQL",
    )
    .starts("postgresql"),
    need(
        "pgbouncer",
        &["pgbouncer"],
        "the store is tested behind a pooler",
    )
    .starts("pgbouncer"),
    need(
        "pgbench",
        &["postgresql"],
        "the benchmark's baseline is measured with it",
    ),
    need(
        "redis-server",
        &["redis-server"],
        "tests start a private Redis",
    )
    .starts("redis-server"),
    need(
        "nats-server",
        &["nats-server"],
        "tests start a private NATS",
    )
    .starts("nats-server"),
    need(
        "promtool",
        &["prometheus"],
        "the metrics and the alarms are checked by the program that reads them",
    )
    .starts("prometheus"),
    need(
        "node",
        &["nodejs"],
        "Azurite, which stands in for Azure, and the tests of the TypeScript client run on it",
    ),
    need(
        "npm",
        &["npm"],
        "Azurite, and axe-core, which the operator's page is checked with, are installed with it",
    ),
    need(
        "python3",
        &["python3"],
        "the tests of the Python client, and Schemathesis, run on it",
    ),
    need(
        "pip3",
        &["python3-pip"],
        "Schemathesis is installed with it",
    ),
];

const fn need(program: &'static str, packages: &'static [&'static str], why: &'static str) -> Need {
    Need {
        program,
        packages,
        why,
        service: None,
    }
}

impl Need {
    const fn starts(self, service: &'static str) -> Self {
        Self {
            service: Some(service),
            ..self
        }
    }
}

/// Sees to it that all of it is there.
pub(crate) fn prepare() -> Result<(), String> {
    programs()?;
    npm_packages(&[("azurite", AZURITE)])?;
    npm_packages(&[("axe-core", AXE)])?;
    npm_packages(&OPENAPI_TYPESCRIPT)?;
    REQUIREMENTS
        .iter()
        .try_for_each(|(name, requirements)| pip_packages(name, requirements))
}

/// Installs packages of npm into the target folder, where the tests look for them by the name of the first.
fn npm_packages(packages: &[(&str, &str)]) -> Result<(), String> {
    let (name, _) = packages[0];
    let folder = tree::target().join("tools").join(name);
    let is_installed = |(name, version): &(&str, &str)| {
        let manifest = folder.join("node_modules").join(name).join("package.json");
        std::fs::read_to_string(manifest)
            .is_ok_and(|text| text.contains(&format!("\"version\": \"{version}\"")))
    };
    if packages.iter().all(is_installed) {
        return Ok(());
    }
    println!("xtask: installing {name} into {}", folder.display());
    let half = emptied(&folder)?;
    let mut npm = command::at_top("npm");
    npm.args([
        "install",
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
        "--omit=dev",
        "--loglevel=error",
        "--prefix",
    ]);
    let named = packages
        .iter()
        .map(|(name, version)| format!("{name}@{version}"));
    command::run(npm.arg(&half).args(named))?;
    complete(&half, &folder)
}

/// Installs what a list requires into the target folder, where the tests look for it.
fn pip_packages(name: &str, requirements: &str) -> Result<(), String> {
    // Hypothesis takes what lies in no folder of this name for the code under test: it reads all of it again, for constants to try.
    let folder = tree::target().join("tools/site-packages").join(name);
    let wanted = tree::top().join(requirements);
    let wanted = std::fs::read_to_string(&wanted)
        .map_err(|error| format!("{} cannot be read: {error}", wanted.display()))?;
    let installed = folder.join("requirements.txt");
    if std::fs::read_to_string(&installed).is_ok_and(|text| text == wanted) {
        return Ok(());
    }
    println!("xtask: installing {name} into {}", folder.display());
    let half = emptied(&folder)?;
    let mut pip = command::at_top("python3");
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ])
    .args(["--no-warn-script-location", "--root-user-action=ignore"])
    .args([
        "--only-binary=:all:",
        "--requirement",
        requirements,
        "--target",
    ]);
    command::run(pip.arg(&half))?;
    let note = half.join("requirements.txt");
    std::fs::write(&note, wanted)
        .map_err(|error| format!("{} cannot be written: {error}", note.display()))?;
    complete(&half, &folder)
}

/// An empty folder to install into, in place of what is in `folder`. An installation that breaks off must
/// not look like one that is complete.
fn emptied(folder: &Path) -> Result<PathBuf, String> {
    let half = folder.with_extension("half");
    for old in [half.as_path(), folder] {
        match std::fs::remove_dir_all(old) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(unreplaced(folder, &error));
            }
            Ok(()) | Err(_) => {}
        }
    }
    std::fs::create_dir_all(&half).map_err(|error| unreplaced(folder, &error))?;
    Ok(half)
}

fn complete(half: &Path, folder: &Path) -> Result<(), String> {
    std::fs::rename(half, folder).map_err(|error| unreplaced(folder, &error))
}

fn unreplaced(folder: &Path, error: &std::io::Error) -> String {
    format!("{} cannot be replaced: {error}", folder.display())
}

fn programs() -> Result<(), String> {
    let missing: Vec<&Need> = NEEDS
        .iter()
        .filter(|need| !is_there(need.program))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut packages: Vec<&str> = missing
        .iter()
        .flat_map(|need| need.packages)
        .copied()
        .collect();
    packages.dedup();
    let wanted: Vec<String> = missing
        .iter()
        .map(|need| format!("`{}` ({})", need.program, need.why))
        .collect();
    let by_hand = format!(
        "this machine lacks {}. Install it as root: apt-get install {}",
        wanted.join(" and "),
        packages.join(" ")
    );
    if command::on_path("apt-get").is_none() || !is_root() {
        return Err(by_hand);
    }
    println!("xtask: installing {}", packages.join(" "));
    install(&packages).map_err(|error| format!("{by_hand}\n({error})"))?;
    keep_from_starting(missing.iter().filter_map(|need| need.service));
    Ok(())
}

/// Services that came with what we have just installed are not to start with the machine either.
/// `systemctl` changes that without a running systemd too; where it is missing, nothing starts
/// them.
fn keep_from_starting<'a>(services: impl Iterator<Item = &'a str>) {
    if command::on_path("systemctl").is_none() {
        return;
    }
    for service in services {
        match command::run(command::at_top("systemctl").args(["--quiet", "disable", service])) {
            Ok(()) => {
                println!("xtask: the service {service} is installed but does not start by itself")
            }
            Err(error) => {
                println!("xtask: the service {service} may start with the machine ({error})")
            }
        }
    }
}

fn is_there(program: &str) -> bool {
    let postgresql = Path::new(POSTGRESQL)
        .read_dir()
        .into_iter()
        .flatten()
        .flatten();
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(FOLDERS.iter().map(PathBuf::from))
        .chain(postgresql.map(|it| it.path().join("bin")))
        .any(|folder| folder.join(program).is_file())
}

fn install(packages: &[&str]) -> Result<(), String> {
    let apt = || {
        let mut command = command::at_top("apt-get");
        // The older way to say that no service is to be started, for packages that ask it and not
        // the policy.
        command
            .env("DEBIAN_FRONTEND", "noninteractive")
            .env("RUNLEVEL", "1")
            .arg("--quiet");
        command
    };
    // An image without package lists is the usual case, stale lists the second most usual.
    command::run(apt().arg("update"))?;
    // We want programs, not services: a server on its usual port is not needed. Services that are
    // there already, and a policy or a choice that was made before, stay as they are.
    let _policy = ForNow::write(POLICY, "#!/bin/sh\nexit 101\n")?;
    command::run(
        apt()
            .args([
                "install",
                "--yes",
                "--no-install-recommends",
                "-o",
                "Dpkg::Options::=--force-confold",
            ])
            .args(packages),
    )
}

/// A file that is there while packages are installed, unless one is there already.
struct ForNow(Option<&'static Path>);

impl ForNow {
    fn write(file: &'static str, text: &str) -> Result<Self, String> {
        use std::os::unix::fs::PermissionsExt;
        let file = Path::new(file);
        if file.exists() {
            return Ok(Self(None));
        }
        let wrong =
            |error: std::io::Error| format!("{} cannot be written: {error}", file.display());
        let written = Self(Some(file));
        std::fs::write(file, text).map_err(wrong)?;
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).map_err(wrong)?;
        Ok(written)
    }
}

impl Drop for ForNow {
    fn drop(&mut self) {
        if let Some(file) = self.0 {
            let _ = std::fs::remove_file(file);
        }
    }
}

/// Asks the kernel: the standard library has no `geteuid`, and a dependency for it would be
/// compiled first of all.
pub(crate) fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    Path::new("/proc/self")
        .metadata()
        .is_ok_and(|own| own.uid() == 0)
}
