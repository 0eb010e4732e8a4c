//! A copy of the checkout that has the mutants, what is built of it, and its tests.

use super::patch::Binary;
use super::switch;
use crate::executables::{self, Executable};
use crate::{command, tree};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A link to a folder, and what it holds.
const LINK: (&str, &str) = ("crates/counterstep/new/deploy", "../../../deploy");

/// Between two looks whether a test has ended.
const LOOK: Duration = Duration::from_millis(20);

/// A copy of the checkout.
pub(super) struct Checkout {
    sources: PathBuf,
    built: PathBuf,
}

/// Where each test binary lies.
pub(super) struct Built(BTreeMap<Binary, Executable>);

/// A run of tests.
pub(super) struct Ended {
    /// Unknown where it was stopped.
    pub(super) success: Option<bool>,
    pub(super) output: String,
}

impl Checkout {
    /// Brings the copy up to date, with some files of other texts. What has not changed keeps its time, so it is not built again.
    pub(super) fn make(changed: &BTreeMap<String, String>) -> Result<Self, String> {
        let top = tree::target().join("mutants");
        let copy = Self {
            sources: top.join("sources"),
            built: top.join("built"),
        };
        let files = tree::files()?;
        for file in &files {
            let own = || fs::read(tree::top().join(file));
            let text = changed.get(file).map(|text| text.clone().into_bytes());
            let text = text.map_or_else(own, Ok);
            let text = text.map_err(|error| format!("{file} cannot be read: {error}"))?;
            copy.write(file, &text)?;
        }
        copy.link()?;
        copy.remove_others(&files.into_iter().collect())?;
        Ok(copy)
    }

    fn write(&self, file: &str, text: &[u8]) -> Result<(), String> {
        let to = self.sources.join(file);
        let failed = |error| format!("{} cannot be written: {error}", to.display());
        if fs::read(&to).is_ok_and(|there| there == text) {
            return Ok(());
        }
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        fs::write(&to, text).map_err(failed)
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

    /// Builds these test binaries, at level 0: nearly all of the time goes into building.
    pub(super) fn build(&self, binaries: &BTreeSet<&Binary>) -> Result<Built, String> {
        let mut cargo = command::cargo();
        cargo
            .current_dir(&self.sources)
            .env("CARGO_TARGET_DIR", &self.built)
            .env("CARGO_PROFILE_TEST_OPT_LEVEL", "0")
            .args(["test", "--no-run"]);
        for binary in binaries {
            cargo.args(["--package", &binary.package]);
            match binary.target.as_str() {
                "lib" => cargo.arg("--lib"),
                name => cargo.args(["--test", name]),
            };
        }
        Built::of(&mut cargo, binaries)
    }
}

impl Built {
    fn of(cargo: &mut Command, binaries: &BTreeSet<&Binary>) -> Result<Self, String> {
        let built = executables::built(cargo)?.ok_or(
            "the mutants cannot be built together: apply the patch of each that cargo names, and build it",
        )?;
        let built: BTreeMap<_, _> = built.into_iter().map(|it| (Binary::of(&it), it)).collect();
        let missing = binaries.iter().find(|binary| !built.contains_key(**binary));
        match missing {
            None => Ok(Self(built)),
            Some(binary) => Err(format!("cargo has not built {binary:?}")),
        }
    }

    /// Runs tests of a binary with a mutant, or with none where its name is empty, and stops them after this time.
    pub(super) fn test(
        &self,
        binary: &Binary,
        tests: &BTreeSet<&str>,
        mutant: &str,
        limit: Duration,
    ) -> Result<Ended, String> {
        let executable = self.0.get(binary).ok_or("it was not built")?;
        let mut test = executable.command();
        test.env(switch::VARIABLE, mutant)
            .arg("--exact")
            .args(tests)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let shown = command::shown(&test);
        let failed = |error| format!("{shown}: {error}");
        let mut child = test.spawn().map_err(failed)?;
        let mut stdout = child.stdout.take();
        let output = thread::spawn(move || {
            let mut output = Vec::new();
            // What was written until it ended, also where that is cut off.
            let _ = stdout.as_mut().map(|it| it.read_to_end(&mut output));
            String::from_utf8_lossy(&output).into_owned()
        });
        let started = Instant::now();
        let success = loop {
            match child.try_wait().map_err(failed)? {
                Some(status) => break Some(status.success()),
                None if started.elapsed() > limit => {
                    child.kill().and_then(|()| child.wait()).map_err(failed)?;
                    break None;
                }
                None => thread::sleep(LOOK),
            }
        };
        let output = output.join().unwrap_or_default();
        Ok(Ended { success, output })
    }
}

impl Ended {
    pub(super) fn passed(&self, test: &str) -> bool {
        self.has(&format!("test {test} ... ok"))
    }

    pub(super) fn failed(&self, test: &str) -> bool {
        self.has(&format!("test {test} ... FAILED"))
    }

    fn has(&self, line: &str) -> bool {
        self.output.lines().any(|it| it == line)
    }
}
