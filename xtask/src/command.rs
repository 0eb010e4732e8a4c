//! Starting other programs: from the repository's top, with an error that says which one it was.

use crate::tree;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// `cargo`, the one that runs us: the toolchain file of the repository has chosen it.
///
/// What it tells us of our own package is not for it: build scripts that ask for such variables
/// (ring's does) would run again, and a third of the dependencies with them, whenever cargo is
/// called from another package.
pub(crate) fn cargo() -> Command {
    let mut cargo =
        at_top(std::env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from));
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_of_a_package) {
            cargo.env_remove(name);
        }
    }
    cargo
}

/// Whether cargo gives such a variable to what it runs, of the package that it runs.
fn is_of_a_package(variable: &str) -> bool {
    variable == "OUT_DIR"
        || ["CARGO_PKG_", "CARGO_MANIFEST_"]
            .iter()
            .any(|start| variable.starts_with(start))
}

/// Any program, from the repository's top.
pub(crate) fn at_top(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new(program.as_ref());
    command.current_dir(tree::top());
    command
}

/// Runs to the end with our own output.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let status = command
        .status()
        .map_err(|error| format!("{} does not start: {error}", shown(command)))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{} ended with {status}", shown(command)))
    }
}

/// Runs to the end and gives what it wrote to its standard output.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{} does not start: {error}", shown(command)))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let why = String::from_utf8_lossy(&output.stderr);
        Err(format!(
            "{} ended with {}: {}",
            shown(command),
            output.status,
            why.trim()
        ))
    }
}

/// The program's path, when it is on `PATH`.
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// As one would type it.
pub(crate) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program())
        .file_name()
        .unwrap_or(command.get_program());
    let args = command.get_args().map(|arg| arg.to_string_lossy());
    let words: Vec<_> = std::iter::once(program.to_string_lossy())
        .chain(args)
        .collect();
    format!("`{}`", words.join(" "))
}
