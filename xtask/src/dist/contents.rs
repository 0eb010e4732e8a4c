//! What an archive has besides the program: what the program writes about itself, and what belongs to the release. Compiles
//! nothing, so that tests pack a program of their own.

use super::pack::{Contents, File};
use super::release::{PACKAGE, Release};
use super::{crates, licences, sbom};
use crate::{command, tree};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The bill of materials, in the archive.
pub(super) const BILL: &str = "sbom.cdx.json";

/// Of the repository, as they are.
const OF_THE_REPOSITORY: [&str; 4] = ["CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT", "README.md"];

/// The shells, and where each looks for its script.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "completions/counterstep.bash"),
    ("fish", "completions/counterstep.fish"),
    ("zsh", "completions/_counterstep"),
];

/// All of an archive with this program. Its man pages are written to a folder on the way.
pub(super) fn of(release: &Release, program: &Path, man: &Path) -> Result<Contents, String> {
    let crates = crates::of_program(&release.target)?;
    let mut contents = Contents::new();
    for name in OF_THE_REPOSITORY {
        contents.insert(name.to_owned(), File::text(tree::text(name)?));
    }
    let texts = [
        (licences::NAME, licences::text(&crates)?),
        (licences::NAME_OF_STD, licences::of_std()?),
        (BILL, sbom::text(release, &crates)?),
    ];
    for (name, text) in texts {
        contents.insert(name.to_owned(), File::text(text));
    }
    let bytes = read(program)?;
    let is_program = true;
    contents.insert(PACKAGE.to_owned(), File { bytes, is_program });
    for (shell, path) in COMPLETIONS {
        let script = command::output(alone(program).args(["completions", shell]))?;
        contents.insert(path.to_owned(), File::text(script));
    }
    contents.extend(man_pages(program, man)?);
    Ok(contents)
}

fn man_pages(program: &Path, folder: &Path) -> Result<Contents, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    // Those of an earlier build may have commands that are gone.
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(failed)?;
    }
    fs::create_dir_all(folder).map_err(failed)?;
    command::output(alone(program).arg("man").arg(folder))?;
    let mut pages = Contents::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let bytes = read(&entry.path())?;
        let is_program = false;
        pages.insert(format!("man/man1/{name}"), File { bytes, is_program });
    }
    if pages.is_empty() {
        return Err(format!("{} man wrote no page", program.display()));
    }
    Ok(pages)
}

/// The program with none of the settings around us, which its help would show.
fn alone(program: &Path) -> Command {
    let mut command = command::at_top(program);
    command.env_clear();
    command
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))
}
