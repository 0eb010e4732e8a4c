//! Which crates the released program is made of, and what each needs. Asked of cargo for exactly this build: what the tests and
//! other targets need is not in it.

use super::release::{FEATURES, PACKAGE};
use crate::{command, tree};
use cargo_metadata::{MetadataCommand, Package};
use std::collections::{BTreeMap, BTreeSet};

/// Name and version: of two sources, cargo would refuse to build one program.
pub(super) type Id = (String, String);

/// A crate that the program is built from.
pub(super) struct Crate {
    pub(super) id: Id,
    /// Whether its code is in the program. That of macros and build scripts runs while it is built.
    pub(super) is_linked: bool,
    /// What it needs of the others, in order.
    pub(super) needs: BTreeSet<Id>,
    pub(super) manifest: Package,
    /// SHA-256 of its archive on the registry; none of a crate of the workspace.
    pub(super) checksum: Option<String>,
}

impl Crate {
    /// Whether it is one of the repository.
    pub(super) fn is_own(&self) -> bool {
        self.manifest.source.is_none()
    }

    /// Its licences as an SPDX expression. Some manifests have the older form with a slash.
    pub(super) fn licence(&self) -> Option<String> {
        let licence = self.manifest.license.as_deref()?;
        Some(licence.replace(" / ", "/").replace('/', " OR "))
    }
}

/// All of them, by name and version.
pub(super) fn of_program(target: &str) -> Result<Vec<Crate>, String> {
    let linked = needs(&tree_of(target, "normal,no-proc-macro")?);
    let built = needs(&tree_of(target, "normal,build")?);
    let args = ["metadata", "--format-version", "1", "--locked"];
    let mut cargo = command::cargo();
    cargo.args(args).args(["--filter-platform", target]);
    let metadata = MetadataCommand::parse(command::output(&mut cargo)?)
        .map_err(|error| format!("invalid answer of `cargo metadata`: {error}"))?;
    let mut manifests = BTreeMap::new();
    for manifest in metadata.packages {
        manifests.insert(
            (manifest.name.to_string(), manifest.version.to_string()),
            manifest,
        );
    }
    let mut checksums = checksums(&tree::text("Cargo.lock")?);
    let crates = built.into_iter().map(|(id, needs)| {
        let manifest = manifests.remove(&id);
        let manifest = manifest.ok_or_else(|| format!("cargo has no manifest of {id:?}"))?;
        Ok(Crate {
            is_linked: linked.contains_key(&id),
            needs,
            manifest,
            checksum: checksums.remove(&id),
            id,
        })
    });
    crates.collect()
}

fn tree_of(target: &str, edges: &str) -> Result<String, String> {
    let args = [
        "tree",
        "--locked",
        "--package",
        PACKAGE,
        "--features",
        FEATURES,
        "--prefix",
        "depth",
        "--format",
        "{p}",
        "--edges",
        edges,
        "--target",
        target,
    ];
    command::output(command::cargo().args(args))
}

/// What each crate of a tree needs. A line is the depth, the name, and the version behind a `v`; where a crate comes once more, what is
/// below it is left out.
fn needs(tree: &str) -> BTreeMap<Id, BTreeSet<Id>> {
    let mut found: BTreeMap<Id, BTreeSet<Id>> = BTreeMap::new();
    let mut above: Vec<Id> = Vec::new();
    for line in tree.lines() {
        let name_at = line.find(|it: char| !it.is_ascii_digit());
        let (depth, crate_) = line.split_at(name_at.unwrap_or(line.len()));
        let mut words = crate_.split_whitespace();
        let (Ok(depth), Some(name), Some(version)) =
            (depth.parse::<usize>(), words.next(), words.next())
        else {
            continue;
        };
        let id = (name.to_owned(), version.trim_start_matches('v').to_owned());
        above.truncate(depth);
        if let Some(parent) = above.last() {
            found.entry(parent.clone()).or_default().insert(id.clone());
        }
        found.entry(id.clone()).or_default();
        above.push(id);
    }
    found
}

/// Those of a lock file.
fn checksums(lock: &str) -> BTreeMap<Id, String> {
    let value = |package: &str, key: &str| {
        let mut lines = package.lines();
        let value = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
        value.map(|value| value.trim_end_matches('"').to_owned())
    };
    let packages = lock.split("[[package]]").skip(1);
    let found = packages.filter_map(|package| {
        let id = (value(package, "name")?, value(package, "version")?);
        Some((id, value(package, "checksum")?))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::{checksums, needs};
    use std::collections::BTreeSet;

    fn id(name: &str, version: &str) -> (String, String) {
        (name.to_owned(), version.to_owned())
    }

    #[test]
    fn a_tree_has_what_each_crate_needs() {
        let found = needs(
            "0top v1.0.0 (/src/top)\n1a v0.2.0\n2b v3.0.0+4 (proc-macro)\n1b v3.0.0+4 (proc-macro) (*)\n1c v1.0.0\n",
        );
        let of = |name, version| found[&id(name, version)].clone();
        let all = [id("a", "0.2.0"), id("b", "3.0.0+4"), id("c", "1.0.0")];
        assert_eq!(of("top", "1.0.0"), BTreeSet::from(all));
        assert_eq!(of("a", "0.2.0"), BTreeSet::from([id("b", "3.0.0+4")]));
        assert_eq!(of("c", "1.0.0"), BTreeSet::new());
        assert_eq!(found.len(), 4);
    }

    #[test]
    fn a_lock_file_has_the_checksums_of_the_registry() {
        let lock = "version = 4\n\n[[package]]\nname = \"own\"\nversion = \"0.1.0\"\ndependencies = [\n \"a\",\n]\n\n\
            [[package]]\nname = \"a\"\nversion = \"1.2.3\"\nsource = \"registry+x\"\nchecksum = \"00ff\"\n";
        let found = checksums(lock);
        assert_eq!(found.len(), 1);
        assert_eq!(found[&id("a", "1.2.3")], "00ff");
    }
}
