//! Which packages of the workspace are published, and in which order. Read from the manifests by cargo; no name is written here.

use crate::command;
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package};
use std::path::Path;

/// A package that is published.
#[derive(Debug, Clone)]
pub(crate) struct Published {
    pub(crate) name: String,
    pub(crate) version: String,
    /// Its folder, from the repository's top.
    pub(crate) folder: String,
    /// All that its manifest says.
    pub(crate) manifest: Package,
}

/// All of them, each behind those that it depends on.
pub(crate) fn published() -> Result<Vec<Published>, String> {
    let args = [
        "metadata",
        "--format-version",
        "1",
        "--no-deps",
        "--offline",
    ];
    let metadata = MetadataCommand::parse(command::output(command::cargo().args(args))?)
        .map_err(|error| format!("invalid answer of `cargo metadata`: {error}"))?;
    let needs = |package: &Published| needed(&package.manifest);
    in_order(of(metadata)?, |package| package.name.clone(), needs).map_err(|circle| {
        format!(
            "none of these can be published first: {}",
            circle.join(", ")
        )
    })
}

fn of(metadata: Metadata) -> Result<Vec<Published>, String> {
    let top = metadata.workspace_root.as_std_path();
    let mut found = Vec::new();
    for package in metadata.packages {
        if package.publish.as_ref().is_some_and(Vec::is_empty) {
            continue;
        }
        let folder = package.manifest_path.as_std_path().parent();
        let folder = folder
            .and_then(|folder| folder.strip_prefix(top).ok())
            .and_then(Path::to_str);
        found.push(Published {
            name: package.name.to_string(),
            version: package.version.to_string(),
            folder: folder
                .ok_or_else(|| format!("{} is outside of the workspace", package.name))?
                .to_owned(),
            manifest: package,
        });
    }
    Ok(found)
}

/// What must be on the registry before the package. What its tests need is left out when it is packed.
fn needed(package: &Package) -> Vec<String> {
    let of_builds = package
        .dependencies
        .iter()
        .filter(|it| it.kind != DependencyKind::Development);
    of_builds.map(|it| it.name.clone()).collect()
}

/// Each behind all that it needs of the others, by name where they need nothing of each other. Otherwise the names that need
/// each other.
fn in_order<T>(
    items: Vec<T>,
    name: impl Fn(&T) -> String,
    needs: impl Fn(&T) -> Vec<String>,
) -> Result<Vec<T>, Vec<String>> {
    let mut left = items;
    left.sort_by_key(&name);
    let mut ordered = Vec::new();
    while !left.is_empty() {
        let names: Vec<String> = left.iter().map(&name).collect();
        let is_free = |item: &T| needs(item).iter().all(|needed| !names.contains(needed));
        match left.iter().position(is_free) {
            Some(at) => ordered.push(left.remove(at)),
            None => return Err(names),
        }
    }
    Ok(ordered)
}

#[cfg(test)]
mod tests {
    use super::{in_order, published};

    fn ordered(items: &[(&'static str, &[&str])]) -> Result<Vec<&'static str>, Vec<String>> {
        let needs = |item: &(&str, &[&str])| item.1.iter().map(|&it| it.to_owned()).collect();
        let ordered = in_order(items.to_vec(), |item| item.0.to_owned(), needs);
        ordered.map(|items| items.into_iter().map(|item| item.0).collect())
    }

    #[test]
    fn each_comes_behind_what_it_needs_and_others_by_name() {
        let items: [(_, &[_]); 4] = [
            ("a", &["c", "serde"]),
            ("c", &["b"]),
            ("b", &[]),
            ("d", &[]),
        ];
        assert_eq!(ordered(&items), Ok(vec!["b", "c", "a", "d"]));
    }

    #[test]
    fn what_needs_each_other_is_named() {
        let items: [(_, &[_]); 3] = [("a", &["b"]), ("b", &["a"]), ("c", &[])];
        assert_eq!(ordered(&items), Err(vec!["a".to_owned(), "b".to_owned()]));
    }

    #[test]
    fn the_crate_that_users_name_is_published_and_the_commands_of_the_repository_are_not() {
        let names: Vec<_> = published().unwrap().into_iter().map(|it| it.name).collect();
        let at = |name: &str| names.iter().position(|it| it == name);
        assert!(
            at("counterstep-contracts") < at("counterstep-kernel"),
            "{names:?}"
        );
        assert!(at("counterstep-kernel") < at("counterstep"), "{names:?}");
        assert!(at("counterstep-contracts").is_some(), "{names:?}");
        assert_eq!(at("xtask"), None);
    }
}
