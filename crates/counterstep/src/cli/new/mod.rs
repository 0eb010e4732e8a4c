//! `counterstep new`: a crate of one's own, with a task type, its tests, and the files that deploy its
//! program. Writes into a new folder only, and overwrites nothing.

mod name;
mod templates;

use super::output::print;
use counterstep_node::Exit;
use name::ProgramName;
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use templates::{Source, Written, files};

/// Flags of `new`.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct NewArgs {
    /// Name of the crate, its program and its folder: 3 to 31 of a-z 0-9 -
    name: String,
    /// Depend on the Counterstep checkout in this folder [default: its git repository]
    #[arg(long, value_name = "FOLDER")]
    path: Option<PathBuf>,
}

pub(super) fn main(args: &NewArgs) -> Result<(), Exit> {
    let name = ProgramName::parse(&args.name).map_err(Exit::config)?;
    let source = args
        .path
        .as_deref()
        .map_or(Ok(Source::Repository), checkout)?;
    let folder = Path::new(name.as_str());
    let files = files(&name, &source);
    write(folder, &files)?;
    print(&format!(
        "{} files are written to {name}. Next:\n  cd {name}\n  cargo test           # every fault at \
         every step; the first build takes a few minutes\n  cargo run -- dev     # API, worker and reconciler in one process\n",
        files.len()
    ))
}

/// The folder of a checkout, as a manifest anywhere can name it.
fn checkout(path: &Path) -> Result<Source, Exit> {
    let invalid = |why: &str| {
        Exit::config(format_args!(
            "invalid path `{}`: {why}; expected the folder of a Counterstep checkout",
            path.display()
        ))
    };
    let whole = path
        .canonicalize()
        .map_err(|error| invalid(&error.to_string()))?;
    if !whole.join("crates/counterstep/Cargo.toml").is_file() {
        return Err(invalid("it has no crates/counterstep/Cargo.toml"));
    }
    let text = whole.to_str().ok_or_else(|| invalid("it is not UTF-8"))?;
    Ok(Source::Checkout(text.to_owned()))
}

fn write(folder: &Path, files: &[Written]) -> Result<(), Exit> {
    let failed = |path: &Path, error: std::io::Error| {
        Exit::failed(format_args!(
            "{} cannot be written: {error}",
            path.display()
        ))
    };
    match fs::read_dir(folder).map(|mut entries| entries.next().is_none()) {
        Ok(true) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Ok(false) => {
            return Err(Exit::config(format_args!(
                "invalid name `{0}`: the folder {0} is not empty; expected the name of a new folder",
                folder.display()
            )));
        }
        Err(error) => {
            return Err(Exit::config(format_args!(
                "invalid name `{}`: {error}; expected the name of a new folder",
                folder.display()
            )));
        }
    }
    for file in files {
        let path = folder.join(&file.path);
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent).map_err(|error| failed(parent, error))?;
        // Not over one that appeared since the folder was looked at.
        fs::File::create_new(&path)
            .and_then(|mut made| made.write_all(file.text.as_bytes()))
            .map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
