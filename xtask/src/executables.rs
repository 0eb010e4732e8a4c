//! The test binaries that cargo has built, run without it: while a test builds something, any `cargo test` would wait for the lock on
//! the folder of what is built. Must not build by itself.

use crate::command;
use cargo_metadata::{Message, Target, TargetKind};
use std::io::BufReader;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A test binary.
#[derive(Debug)]
pub(crate) struct Executable {
    pub(crate) package: String,
    /// Name of an integration test; `None`: the unit tests of a library or program.
    pub(crate) test: Option<String>,
    path: PathBuf,
    /// Of the package.
    folder: PathBuf,
    /// Where the standard library is: the unit tests of a macro crate load it.
    libraries: String,
}

impl Executable {
    /// Runs it as cargo would, without variables that no test reads.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command
            .current_dir(&self.folder)
            .env("CARGO", command::cargo().get_program())
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .env("LD_LIBRARY_PATH", &self.libraries);
        command
    }
}

/// Runs a `cargo test --no-run`, and gives the test binaries in the order of cargo; `None`: they cannot be built.
pub(crate) fn built(cargo: &mut Command) -> Result<Option<Vec<Executable>>, String> {
    cargo.args(["--message-format", "json-render-diagnostics"]);
    let libraries = command::output(command::at_top("rustc").args(["--print", "target-libdir"]))?;
    let shown = command::shown(cargo);
    let child = cargo.stdout(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| format!("{shown} does not start: {error}"))?;
    let mut built = Vec::new();
    let messages = child.stdout.take().map(BufReader::new);
    for message in messages.into_iter().flat_map(Message::parse_stream) {
        let message = message.map_err(|error| format!("invalid answer of {shown}: {error}"))?;
        if let Message::CompilerArtifact(artifact) = message
            && artifact.profile.test
            && let Some(path) = artifact.executable
            && let Some(folder) = artifact.manifest_path.parent()
        {
            built.push(Executable {
                package: name(&artifact.package_id.repr),
                test: integration(artifact.target),
                path: path.into(),
                folder: folder.into(),
                libraries: libraries.trim().to_owned(),
            });
        }
    }
    let ended = child.wait().map_err(|error| format!("{shown}: {error}"))?;
    Ok(ended.success().then_some(built))
}

fn integration(target: Target) -> Option<String> {
    target.is_kind(TargetKind::Test).then_some(target.name)
}

/// A package's name in cargo's id of it: behind the folder, where it is not the folder's own.
fn name(id: &str) -> String {
    let (folder, version) = id.rsplit_once('#').unwrap_or((id, ""));
    match version.split_once('@') {
        Some((name, _)) => name,
        None => folder.rsplit('/').next().unwrap_or(folder),
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn a_package_is_named_by_its_id() {
        let other = "path+file:///a/crates/kernel#counterstep-kernel@0.1.0";
        assert_eq!(name(other), "counterstep-kernel");
        let own = "path+file:///a/crates/counterstep#0.1.0";
        assert_eq!(name(own), "counterstep");
    }
}
