//! A file with secrets of the installation. Where the database is a file, the processes that share it share its
//! machine, and with it the data directory: there the file is made. Must not know what the secrets are for.

use crate::exit::Exit;
use crate::settings::{Database, Layers, Settings};
use counterstep_adapters::new_folders::{make_folders, sync_name};
use counterstep_adapters::system::SystemRandom;
use counterstep_kernel::ports::Random;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Where the secrets are.
#[derive(Debug)]
pub(super) struct SecretFile<'a> {
    /// The setting that names the file.
    pub(super) setting: &'static str,
    /// What it names.
    pub(super) given: Option<&'a Path>,
    /// Its name in the data directory otherwise; `None`: none is made.
    pub(super) made_as: Option<&'static str>,
}

impl SecretFile<'_> {
    /// The file and its text; `None`: there is none. `line`: a new secret of random bits.
    pub(super) fn read(
        &self,
        given: &Layers,
        settings: &Settings,
        line: fn([u128; 2]) -> String,
    ) -> Result<Option<(PathBuf, String)>, Exit> {
        let file = match (self.given, self.made_as) {
            (Some(file), _) => file.to_owned(),
            (None, Some(name)) if matches!(settings.database, Database::Sqlite(_)) => {
                let file = given.data_dir()?.join(name);
                make(&file, line)?;
                file
            }
            _ => return Ok(None),
        };
        let text = read(self.setting, &file)?;
        Ok(Some((file, text)))
    }
}

/// The text of a file that a setting names.
pub(super) fn read(setting: &str, file: &Path) -> Result<String, Exit> {
    std::fs::read_to_string(file).map_err(|error| {
        Exit::config(format_args!(
            "setting `{setting}`: `{}` cannot be read: {error}",
            file.display()
        ))
    })
}

/// Makes the file, where it is not there.
pub(super) fn make(file: &Path, line: fn([u128; 2]) -> String) -> Result<(), Exit> {
    let failed = |error| {
        Exit::config(format_args!(
            "the file `{}` cannot be made: {error}",
            file.display()
        ))
    };
    if let Some(folder) = file.parent() {
        // The settings are read before the process closes what it makes to other users.
        make_folders(folder, 0o700).map_err(failed)?;
    }
    if file.exists() {
        return Ok(());
    }
    let line = line([SystemRandom.bits(), SystemRandom.bits()]);
    // Whole under a name of its own first: another process may look for it.
    let whole = file.with_extension(format!("{:032x}", SystemRandom.bits()));
    let mut options = OpenOptions::new();
    let written = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&whole);
    written
        .and_then(|mut file| {
            file.write_all(line.as_bytes())
                .and_then(|()| file.sync_all())
        })
        .map_err(failed)?;
    let linked = std::fs::hard_link(&whole, file);
    let removed = std::fs::remove_file(&whole);
    match linked {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(failed(error)),
        _ => removed.map_err(failed)?,
    }
    // What was signed with it is to be valid after a power cut, too.
    sync_name(file).map_err(failed)
}
