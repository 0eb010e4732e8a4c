//! What the outcome of tests depends on, as sorted lines: contents as SHA-256, files of the machine
//! by size and time. Rather too much than too little: the whole work tree counts, whichever of its
//! files a test reads.

use crate::artifacts::Program;
use crate::{command, digest, machine, tree};
use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Variables that count by their name, and all that start like these.
const VARIABLES: &[&str] = &[
    "PATH", "HOME", "USER", "TMPDIR", "LANG", "TZ", "SEED", "NO_COLOR", "NO_PROXY",
];
const VARIABLES_LIKE: &[&str] = &[
    "COUNTERSTEP_",
    "RUST",
    "CARGO",
    "TRYBUILD",
    "TOKIO_",
    "AWS_",
    "PG",
    "REDIS",
    "NATS",
    "SSL_",
    "OPENSSL_",
    "LC_",
    "LD_",
    "MALLOC_",
    "GIT_",
    "CC",
    "CFLAGS",
];
const VARIABLES_ENDING: &[&str] = &["_PROXY"];
/// What cargo says about this program to this program. The tests get their own.
const VARIABLES_OF_OURS: &[&str] = &[
    "CARGO_PKG_",
    "CARGO_MANIFEST_",
    "CARGO_BIN_",
    "CARGO_CRATE_",
    "CARGO_PRIMARY_",
];

/// All that the outcome of one test program depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Inputs(Vec<String>);

/// What all test programs depend on.
#[derive(Debug, Clone)]
pub(crate) struct Common(Vec<String>);

impl Common {
    /// Reads the work tree, the programs of the workspace, and what counts of the machine and the
    /// environment.
    pub(crate) fn gather(built: &[Program]) -> Result<Self, String> {
        let mut lines = files(&tree::top(), &tree::files_and_drafts()?)?;
        for file in machine::files() {
            lines.push(machine_line(&file)?);
        }
        lines.extend(variables(std::env::vars_os().map(|(name, value)| {
            (
                name.to_string_lossy().into_owned(),
                value.to_string_lossy().into_owned(),
            )
        }))?);
        lines.extend(programs("program", built.iter().filter(|it| !it.tests))?);
        lines.push(format!("folder {}", tree::top().display()));
        let rustc = command::output(command::at_top("rustc").arg("-vV"))?;
        lines.push(format!("compiler {}", words(&rustc)));
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        lines.push(format!("kernel {}", words(&kernel)));
        // Root may do things that others may not, and some tests do them only then.
        let own = Path::new("/proc/self")
            .metadata()
            .map_err(|error| format!("/proc/self cannot be read: {error}"))?;
        lines.push(format!("user {}", own.uid()));
        Ok(Self(lines))
    }

    /// With the test programs of one run, and how they are called.
    pub(crate) fn with(&self, tests: &[Program], arguments: &str) -> Result<Inputs, String> {
        let mut lines = self.0.clone();
        lines.extend(programs("test", tests.iter())?);
        lines.push(format!("arguments {arguments}"));
        Ok(Inputs::of(lines))
    }
}

impl Inputs {
    /// Of lines in any order.
    pub(super) fn of(mut lines: Vec<String>) -> Self {
        lines.sort();
        Self(lines)
    }

    pub(super) fn lines(&self) -> &[String] {
        &self.0
    }

    /// In words, one thing in which `now` differs; `None`: in nothing.
    pub(crate) fn difference(&self, now: &Self) -> Option<String> {
        if self == now {
            return None;
        }
        let (before, after) = (by_name(&self.0), by_name(&now.0));
        let differs = |name: &&&str| before.get(**name) != after.get(**name);
        let mut names: Vec<_> = before
            .keys()
            .chain(after.keys().filter(|name| !before.contains_key(**name)))
            .collect();
        names.retain(differs);
        // A changed source changes programs too. The source is what the reader has touched.
        names.sort_by_key(|name| (!name.starts_with("file "), **name));
        Some(match names.as_slice() {
            [] => "something has changed".to_owned(),
            [one] => format!("{one} has changed"),
            [first, others @ ..] => format!("{first} and {} more have changed", others.len()),
        })
    }
}

/// A line is a kind, a name, and what it is now; the name may have spaces, the last word may not.
fn by_name(lines: &[String]) -> BTreeMap<&str, &str> {
    lines
        .iter()
        .map(|line| line.rsplit_once(' ').unwrap_or((line, "")))
        .collect()
}

/// The words of a text with a dot between them: one word, which ends a line.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join("·")
}

/// Content and mode of the files of a tree.
fn files(top: &Path, names: &[String]) -> Result<Vec<String>, String> {
    let paths: Vec<_> = names.iter().map(|name| top.join(name)).collect();
    let mut lines = Vec::with_capacity(names.len());
    for ((name, path), digest) in names.iter().zip(&paths).zip(digest::of_files(&paths)?) {
        let mode = read(path, path.metadata())?.mode();
        lines.push(format!("file {} {digest}.{mode:o}", name.escape_debug()));
    }
    Ok(lines)
}

fn programs<'a>(
    kind: &str,
    programs: impl Iterator<Item = &'a Program>,
) -> Result<Vec<String>, String> {
    let paths: Vec<_> = programs.map(|program| &program.path).collect();
    let digests = digest::of_files(&paths)?;
    Ok(paths
        .iter()
        .zip(digests)
        .map(|(path, digest)| format!("{kind} {} {digest}", path.display()))
        .collect())
}

fn machine_line(file: &Path) -> Result<String, String> {
    let found = read(file, file.metadata())?;
    Ok(format!(
        "machine {} {}.{}.{}",
        file.display(),
        found.len(),
        found.mtime(),
        found.mtime_nsec()
    ))
}

fn read(path: &Path, found: std::io::Result<Metadata>) -> Result<Metadata, String> {
    found.map_err(|error| format!("{} cannot be read: {error}", path.display()))
}

/// Those that count. As digests: a password in a variable is not to lie in a folder of the build.
fn variables(all: impl Iterator<Item = (String, String)>) -> Result<Vec<String>, String> {
    let counts = |name: &str| {
        // Proxies are looked for in small letters too.
        let name = name.to_uppercase();
        let starts = |list: &[&str]| list.iter().any(|start| name.starts_with(start));
        let ends = VARIABLES_ENDING.iter().any(|end| name.ends_with(end));
        (VARIABLES.contains(&name.as_str()) || starts(VARIABLES_LIKE) || ends)
            && !starts(VARIABLES_OF_OURS)
    };
    let counting = all.filter(|(name, _)| counts(name));
    counting
        .map(|(name, value)| Ok(format!("variable {name} {}", digest::of_text(&value)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Inputs, files, machine_line, variables};
    use std::path::PathBuf;

    /// A folder that is removed with it.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("xtask-inputs-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn write(&self, file: &str, text: &str) {
            std::fs::write(self.0.join(file), text).unwrap();
        }

        fn inputs(&self, names: &[&str]) -> Inputs {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            Inputs::of(files(&self.0, &names).unwrap())
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_changed_a_new_and_a_removed_file_are_seen() {
        let folder = Folder::new("files");
        folder.write("a page", "one");
        folder.write("b", "two");
        let before = folder.inputs(&["a page", "b"]);
        assert_eq!(before.difference(&folder.inputs(&["b", "a page"])), None);
        folder.write("a page", "One");
        let after = folder.inputs(&["a page", "b"]);
        assert_eq!(
            before.difference(&after).as_deref(),
            Some("file a page has changed")
        );
        assert_eq!(
            after.difference(&folder.inputs(&["a page"])).as_deref(),
            Some("file b has changed")
        );
        assert_eq!(
            before.difference(&folder.inputs(&["b"])).as_deref(),
            Some("file a page has changed")
        );
        folder.write("c", "");
        let more = folder.inputs(&["a page", "b", "c"]);
        assert_eq!(
            before.difference(&more).as_deref(),
            Some("file a page and 1 more have changed")
        );
    }

    #[test]
    fn a_file_that_may_be_executed_now_is_seen() {
        use std::os::unix::fs::PermissionsExt;
        let folder = Folder::new("mode");
        folder.write("run", "exit 0");
        let before = folder.inputs(&["run"]);
        std::fs::set_permissions(folder.0.join("run"), std::fs::Permissions::from_mode(0o755))
            .unwrap();
        assert!(before.difference(&folder.inputs(&["run"])).is_some());
    }

    #[test]
    fn another_server_in_the_same_place_is_seen() {
        let folder = Folder::new("server");
        folder.write("redis-server", "version 7");
        let server = folder.0.join("redis-server");
        let before = machine_line(&server).unwrap();
        assert_eq!(before, machine_line(&server).unwrap());
        folder.write("redis-server", "version 8.0");
        assert_ne!(before, machine_line(&server).unwrap());
    }

    #[test]
    fn variables_that_tests_may_read_are_seen_and_no_value_is_kept() {
        let of = |all: &[(&str, &str)]| {
            let all = all
                .iter()
                .map(|&(name, value)| (name.to_owned(), value.to_owned()));
            Inputs::of(variables(all).unwrap())
        };
        let before = of(&[
            ("COUNTERSTEP_LEASE", "3s"),
            ("WINDOWID", "1"),
            ("CARGO_PKG_NAME", "xtask"),
        ]);
        assert_eq!(before.lines().len(), 1);
        assert_eq!(
            before.difference(&of(&[("COUNTERSTEP_LEASE", "3s"), ("WINDOWID", "2")])),
            None
        );
        for now in [
            &[("COUNTERSTEP_LEASE", "4s")][..],
            &[],
            &[("COUNTERSTEP_LEASE", "3s"), ("RUST_TEST_THREADS", "1")],
            &[("COUNTERSTEP_LEASE", "3s"), ("https_proxy", "http://proxy")],
            &[("COUNTERSTEP_LEASE", "3s"), ("SEED", "7")],
        ] {
            assert!(before.difference(&of(now)).is_some(), "{now:?}");
        }
        assert!(!of(&[("AWS_SECRET_ACCESS_KEY", "hush")]).lines()[0].contains("hush"));
    }
}
