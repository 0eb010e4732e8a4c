//! Folders that are made, and are there after a power cut: the name of a folder is on the disk once the folder above it was
//! synced. Blocking. Must not remove any.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Makes a folder and all above it that are not there, with these rights.
///
/// # Errors
/// When one cannot be made, or the one above it cannot be synced.
pub fn make_folders(folder: &Path, mode: u32) -> io::Result<()> {
    let new = missing(folder);
    make(folder, mode)?;
    new.into_iter().try_for_each(sync_name)
}

/// Brings the name of a file or a folder to the disk.
///
/// # Errors
/// When the folder above it cannot be read.
pub fn sync_name(of: &Path) -> io::Result<()> {
    let above = of.parent().filter(|above| !above.as_os_str().is_empty());
    File::open(above.unwrap_or(Path::new(".")))?.sync_all()
}

/// Those that are not there, the innermost first.
pub(crate) fn missing(folder: &Path) -> Vec<&Path> {
    let named = folder
        .ancestors()
        .take_while(|it| !it.as_os_str().is_empty());
    named.take_while(|folder| !folder.exists()).collect()
}

pub(crate) fn make(folder: &Path, mode: u32) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(mode).create(folder)
}
