//! The licences of the crates whose code is in the program, as their sources have them. Those allowed are in `deny.toml`.

use super::crates::Crate;
use crate::command;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// In the archive.
pub(super) const NAME: &str = "THIRD-PARTY-LICENSES";
/// Beside it.
pub(super) const NAME_OF_STD: &str = "THIRD-PARTY-LICENSES-rust-std.html";

/// How the names of such files begin.
const BEGINNINGS: [&str; 6] = [
    "license",
    "licence",
    "copying",
    "copyright",
    "notice",
    "unlicense",
];
/// How the names of files end that only look like one.
const OTHERS: [&str; 5] = [".rs", ".c", ".h", ".py", ".toml"];
/// Sources of C that a crate brings along lie deeper than its own.
const DEEPEST: usize = 4;

const LINE: &str =
    "================================================================================";

/// The list of all crates with their licences, then each text once with the crates that have it.
pub(super) fn text(crates: &[Crate]) -> Result<String, String> {
    let linked = || crates.iter().filter(|it| it.is_linked && !it.is_own());
    let mut list = String::new();
    // The order of the first crate that has a text.
    let mut texts: Vec<(String, Vec<String>)> = Vec::new();
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for one in linked() {
        let (name, version) = &one.id;
        let licence = one.licence();
        let licence = licence.as_deref().unwrap_or("see its text below");
        list += &format!("{name} {version}: {licence}\n");
        let folder = one.manifest.manifest_path.as_std_path().parent();
        let found = of_folder(folder.ok_or("a manifest lies in no folder")?)?;
        if found.is_empty() {
            list += "    (its sources have no text of it)\n";
        }
        for (path, text) in found {
            let of = format!("{name} {version}: {path}");
            match known.get(&text) {
                Some(at) => texts[*at].1.push(of),
                None => {
                    known.insert(text.clone(), texts.len());
                    texts.push((text, vec![of]));
                }
            }
        }
    }
    let mut whole = format!(
        "The program is made of these crates, each with its licence; the texts are below. Those of Rust's standard library are in\n\
        {NAME_OF_STD}.\n\n{list}"
    );
    for (text, of) in texts {
        whole += &format!("\n{LINE}\n{}\n{LINE}\n\n{text}\n", of.join("\n"));
    }
    Ok(whole)
}

/// The files below the folder of a crate, by their paths in it.
fn of_folder(folder: &Path) -> Result<BTreeMap<String, String>, String> {
    let (mut found, mut open) = (BTreeMap::new(), vec![(folder.to_owned(), 0)]);
    while let Some((at, depth)) = open.pop() {
        let failed = |error: std::io::Error| format!("{} cannot be read: {error}", at.display());
        for entry in fs::read_dir(&at).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let kind = entry.file_type().map_err(failed)?;
            let path = entry.path();
            let name = path.strip_prefix(folder).unwrap_or(&path);
            if kind.is_dir() && depth < DEEPEST {
                open.push((path, depth + 1));
            } else if kind.is_file() && is_licence(name) {
                let bytes = fs::read(&path).map_err(failed)?;
                let text = String::from_utf8_lossy(&bytes).replace('\r', "");
                found.insert(name.display().to_string(), text.trim_end().to_owned());
            }
        }
    }
    Ok(found)
}

/// Whether a file is one by its name, or by that of the folder that it lies in.
fn is_licence(path: &Path) -> bool {
    let begins = |part: &Path| {
        let part = part.to_string_lossy().to_lowercase();
        BEGINNINGS.iter().any(|it| part.starts_with(it))
    };
    let name = path.file_name().map(PathBuf::from).unwrap_or_default();
    let folder = path.parent().and_then(Path::file_name).map(PathBuf::from);
    let text = name.to_string_lossy().to_lowercase();
    (begins(&name) || folder.is_some_and(|it| begins(&it)))
        && !OTHERS.iter().any(|it| text.ends_with(it))
}

/// What the compiler's own page says of the standard library, which is in each program.
pub(super) fn of_std() -> Result<String, String> {
    let system = command::output(command::at_top("rustc").args(["--print", "sysroot"]))?;
    let page = Path::new(system.trim()).join("share/doc/rust/COPYRIGHT-library.html");
    fs::read_to_string(&page).map_err(|error| format!("{} cannot be read: {error}", page.display()))
}

#[cfg(test)]
mod tests {
    use super::is_licence;
    use std::path::Path;

    #[test]
    fn a_licence_is_known_by_its_name_or_its_folder() {
        for path in [
            "LICENSE",
            "LICENSE-MIT",
            "COPYING.txt",
            "c/mimalloc/LICENSE",
            "LICENSES/MIT.txt",
            "NOTICE",
        ] {
            assert!(is_licence(Path::new(path)), "{path}");
        }
        for path in ["src/license.rs", "README.md", "src/lib.rs", "Cargo.toml"] {
            assert!(!is_licence(Path::new(path)), "{path}");
        }
    }
}
