//! `cargo xtask mutants`: whether the tests notice when a decision is another one. Each file in `tests/mutants` changes one;
//! its first line says what it breaks and which test notices.
//!
//! The mutants are applied to a copy of the checkout, one after the other, with a folder of its own for what is built: a run
//! that ends halfway leaves nothing behind in the sources.

use crate::{command, tree};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const MUTANTS: &str = "tests/mutants";

/// A link to a folder, and what it holds.
const LINK: (&str, &str) = ("crates/counterstep/new/deploy", "../../../deploy");

/// A test binary and a package that it is of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Binary {
    package: String,
    /// `lib`, or the name of an integration test.
    target: String,
}

/// A changed decision.
#[derive(Debug, PartialEq, Eq)]
struct Mutant {
    /// Its file, without folder and ending.
    name: String,
    /// What it breaks.
    breaks: String,
    binary: Binary,
    /// The test that notices.
    test: String,
    /// The files that it changes.
    files: Vec<String>,
}

/// What became of a mutant.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Killed,
    /// Its test passes all the same.
    Survived,
    /// The sources have changed: it has to be written anew.
    DoesNotApply(String),
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Killed => f.write_str("killed"),
            Self::Survived => f.write_str("SURVIVED"),
            Self::DoesNotApply(why) => write!(f, "DOES NOT APPLY: {why}"),
        }
    }
}

/// Runs all mutants, or those with this in their names.
pub(crate) fn run(filter: Option<&str>) -> Result<(), String> {
    let mut mutants = Vec::new();
    for file in tree::files()? {
        let name = file.strip_prefix(MUTANTS).map(|name| &name[1..]);
        let name = name.and_then(|name| name.strip_suffix(".patch"));
        if let Some(name) = name.filter(|name| filter.is_none_or(|filter| name.contains(filter))) {
            mutants.push(Mutant::parse(name, &tree::text(&file)?)?);
        }
    }
    if mutants.is_empty() {
        return Err(format!("no file in {MUTANTS} has such a name"));
    }
    let copy = Checkout::make()?;
    copy.check_tests(&mutants)?;
    let mut left = Vec::new();
    for mutant in &mutants {
        let fate = copy.fate(mutant)?;
        println!("{}: {fate}", mutant.name);
        if fate != Fate::Killed {
            left.push(format!("{} ({})", mutant.name, mutant.breaks));
        }
    }
    println!(
        "\n{} mutants, {} killed",
        mutants.len(),
        mutants.len() - left.len()
    );
    match left.is_empty() {
        true => Ok(()),
        false => Err(format!("not killed:\n{}", left.join("\n"))),
    }
}

impl Mutant {
    /// Reads a patch whose first line is `WHAT IT BREAKS; PACKAGE TARGET TEST`.
    fn parse(name: &str, text: &str) -> Result<Self, String> {
        let first = text.lines().next().unwrap_or_default();
        let invalid = || {
            format!(
                "{MUTANTS}/{name}.patch: its first line is `{first}`; expected `what it breaks; package target test`, with \
                 `lib` or the name of an integration test as target"
            )
        };
        let (breaks, test) = first.rsplit_once(';').ok_or_else(invalid)?;
        let words: Vec<&str> = test.split_whitespace().collect();
        let [package, target, test] = words[..] else {
            return Err(invalid());
        };
        let files = text.lines().filter_map(|line| line.strip_prefix("+++ b/"));
        Ok(Self {
            name: name.to_owned(),
            breaks: breaks.to_owned(),
            binary: Binary {
                package: package.to_owned(),
                target: target.to_owned(),
            },
            test: test.to_owned(),
            files: files.map(str::to_owned).collect(),
        })
    }
}

/// A copy of the checkout.
struct Checkout {
    sources: PathBuf,
    built: PathBuf,
}

impl Checkout {
    /// Brings the copy up to date. What has not changed keeps its time, so it is not built again.
    fn make() -> Result<Self, String> {
        let top = tree::target().join("mutants");
        let copy = Self {
            sources: top.join("sources"),
            built: top.join("built"),
        };
        let files = tree::files()?;
        for file in &files {
            copy.restore(file)?;
        }
        copy.link()?;
        copy.remove_others(&files.into_iter().collect())?;
        Ok(copy)
    }

    /// The folder is among the files where it lies.
    fn link(&self) -> Result<(), String> {
        let link = self.sources.join(LINK.0);
        match symlink(LINK.1, &link) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                Err(format!("{} cannot be made: {error}", link.display()))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn restore(&self, file: &str) -> Result<(), String> {
        let (from, to) = (tree::top().join(file), self.sources.join(file));
        let failed = |error| format!("{} cannot be written: {error}", to.display());
        let wanted = fs::read(&from).map_err(|error| format!("{file} cannot be read: {error}"))?;
        if fs::read(&to).is_ok_and(|there| there == wanted) {
            return Ok(());
        }
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        fs::write(&to, wanted).map_err(failed)
    }

    /// Removes what the checkout does not have any more.
    fn remove_others(&self, files: &BTreeSet<String>) -> Result<(), String> {
        let mut folders = vec![self.sources.clone()];
        while let Some(folder) = folders.pop() {
            let failed = |error| format!("{}: {error}", folder.display());
            for entry in fs::read_dir(&folder).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                let path = entry.path();
                // Not through a link, behind which the paths are others.
                if entry.file_type().map_err(failed)?.is_dir() {
                    folders.push(path);
                } else if !path.ends_with(LINK.0)
                    && !path
                        .strip_prefix(&self.sources)
                        .is_ok_and(|name| files.contains(&*name.to_string_lossy()))
                {
                    fs::remove_file(&path).map_err(failed)?;
                }
            }
        }
        Ok(())
    }

    /// The tests pass while nothing is changed, and each of them is there.
    fn check_tests(&self, mutants: &[Mutant]) -> Result<(), String> {
        let mut tests: BTreeMap<&Binary, BTreeSet<&str>> = BTreeMap::new();
        for mutant in mutants {
            tests
                .entry(&mutant.binary)
                .or_default()
                .insert(&mutant.test);
        }
        for (binary, tests) in tests {
            let mut test = self.test(binary);
            test.args(["--", "--exact"]).args(&tests);
            let output = answer(&mut test)?;
            let text = String::from_utf8_lossy(&output.stdout);
            let missing: Vec<_> = tests
                .iter()
                .filter(|test| !text.contains(&format!("test {test} ... ok")))
                .collect();
            if !output.status.success() || !missing.is_empty() {
                return Err(format!(
                    "of the unchanged sources these tests do not pass, or are not there: {missing:?}\n{text}{}",
                    String::from_utf8_lossy(&output.stderr)
                ));
            }
        }
        Ok(())
    }

    fn test(&self, binary: &Binary) -> Command {
        let mut cargo = command::cargo();
        cargo
            .current_dir(&self.sources)
            .env("CARGO_TARGET_DIR", &self.built)
            // Nearly all of the time goes into building.
            .env("CARGO_PROFILE_TEST_OPT_LEVEL", "0")
            .args(["test", "--package", &binary.package]);
        match binary.target.as_str() {
            "lib" => cargo.arg("--lib"),
            name => cargo.args(["--test", name]),
        };
        cargo
    }

    fn fate(&self, mutant: &Mutant) -> Result<Fate, String> {
        let fate = self.changed(mutant);
        for file in &mutant.files {
            self.restore(file)?;
        }
        fate
    }

    fn changed(&self, mutant: &Mutant) -> Result<Fate, String> {
        let patch = tree::top().join(format!("{MUTANTS}/{}.patch", mutant.name));
        let mut apply = Command::new("git");
        apply
            .current_dir(&self.sources)
            // The copy lies in a folder that the repository ignores: in there, git would change nothing and say nothing.
            .env("GIT_CEILING_DIRECTORIES", absolute(&self.sources)?)
            .arg("apply")
            .arg(absolute(&patch)?);
        let applied = answer(&mut apply)?;
        if !applied.status.success() {
            let why = String::from_utf8_lossy(&applied.stderr);
            return Ok(Fate::DoesNotApply(why.trim().to_owned()));
        }
        if mutant.files.iter().all(|file| self.is_as_it_was(file)) {
            return Ok(Fate::DoesNotApply("it changes nothing".to_owned()));
        }
        let built = answer(self.test(&mutant.binary).arg("--no-run"))?;
        if !built.status.success() {
            let why = String::from_utf8_lossy(&built.stderr);
            return Ok(Fate::DoesNotApply(format!(
                "it cannot be built: {}",
                why.trim()
            )));
        }
        let mut test = self.test(&mutant.binary);
        test.args(["--", "--exact", &mutant.test]);
        Ok(match answer(&mut test)?.status.success() {
            true => Fate::Survived,
            false => Fate::Killed,
        })
    }

    fn is_as_it_was(&self, file: &str) -> bool {
        let read = |top: &Path| fs::read(top.join(file)).ok();
        read(&self.sources) == read(&tree::top())
    }
}

fn absolute(path: &Path) -> Result<PathBuf, String> {
    std::path::absolute(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn answer(command: &mut Command) -> Result<Output, String> {
    command
        .output()
        .map_err(|error| format!("{} does not start: {error}", command::shown(command)))
}

#[cfg(test)]
mod tests {
    use super::{Binary, Mutant};

    #[test]
    fn the_first_line_of_a_mutant_says_what_it_breaks_and_what_notices() {
        let text = "Two claims; of one task; counterstep-kernel lib saga::one\n--- a/x.rs\n+++ b/x.rs\n@@ -1 +1 @@\n";
        let expected = Mutant {
            name: "judge-01".to_owned(),
            breaks: "Two claims; of one task".to_owned(),
            binary: Binary {
                package: "counterstep-kernel".to_owned(),
                target: "lib".to_owned(),
            },
            test: "saga::one".to_owned(),
            files: vec!["x.rs".to_owned()],
        };
        assert_eq!(Mutant::parse("judge-01", text), Ok(expected));
        assert!(Mutant::parse("judge-01", "--- a/x.rs\n").is_err());
        assert!(Mutant::parse("judge-01", "It breaks; counterstep-kernel lib\n").is_err());
    }
}
