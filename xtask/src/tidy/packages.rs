//! Every crate that is published can be packed: its manifest has what people look for on a registry, its archive has what its
//! sources include, and what is no interface says so. Must not pack or compile anything.

use super::{Found, Violation, image};
use crate::publish::{Published, published};
use crate::{command, tree};
use cargo_metadata::DependencyKind;

/// The crates that people name in their manifests.
const FACES: [&str; 2] = ["counterstep", "counterstep-testkit"];

/// What the descriptions and the pages of all others say.
const INTERNAL: &str = "Internal to Counterstep: no promise of stability";

/// The macro that includes a folder of SQL, by its path in the crate.
const MIGRATIONS: &str = "embed_migrations!(\"";

pub(super) fn check(files: &[String]) -> Found {
    let mut found = Vec::new();
    for package in published()? {
        let manifest = format!("{}/Cargo.toml", package.folder);
        let page = tree::text(&format!("{}/README.md", package.folder)).unwrap_or_default();
        let wrong = fields(&package)
            .into_iter()
            .chain(versions(&package))
            .chain(page_of(&package, &page));
        found.extend(wrong.map(|what| Violation::new(&manifest, 1, what)));
        found.extend(contents(&package, files)?);
    }
    Ok(found)
}

/// The fields that a registry, or a reader there, asks for.
fn fields(package: &Published) -> Vec<String> {
    let it = &package.manifest;
    let has_features = it.features.keys().any(|name| name != "default");
    let fields = [
        ("description", it.description.is_some()),
        ("license", it.license.is_some()),
        ("repository", it.repository.is_some()),
        ("readme", it.readme.is_some()),
        ("rust-version", it.rust_version.is_some()),
        ("keywords", (1..=5).contains(&it.keywords.len())),
        ("categories", (1..=5).contains(&it.categories.len())),
        (
            "[package.metadata.docs.rs]",
            !has_features || it.metadata.pointer("/docs/rs").is_some(),
        ),
    ];
    let missing = fields.into_iter().filter(|(_, is_there)| !is_there);
    missing
        .map(|(name, _)| format!("`{name}` is missing, or has more than the registry takes"))
        .collect()
}

/// Of the workspace's own crates: a version for what it is built with, and none for what its tests need, which is left out of the
/// archive then.
fn versions(package: &Published) -> Vec<String> {
    let own = package
        .manifest
        .dependencies
        .iter()
        .filter(|it| it.path.is_some());
    let wrong = own.filter_map(|it| {
        let has_version = !it.req.comparators.is_empty();
        match (it.kind, has_version) {
            (DependencyKind::Development, true) => Some(format!(
                "`{}` is for tests: name its path, and no version, so that no circle is published",
                it.name
            )),
            (DependencyKind::Development, false) | (_, true) => None,
            (_, false) => Some(format!(
                "`{}` has no version: take that of the workspace",
                it.name
            )),
        }
    });
    wrong.collect()
}

/// What the description and the page say of how far the crate may be used.
fn page_of(package: &Published, page: &str) -> Vec<String> {
    let description = package.manifest.description.as_deref().unwrap_or_default();
    if !FACES.contains(&package.name.as_str()) {
        let texts = [("description", description), ("README.md", page)];
        let silent = texts
            .into_iter()
            .filter(|(_, text)| !text.contains(INTERNAL));
        return silent
            .map(|(name, _)| format!("its {name} lacks the sentence `{INTERNAL}`"))
            .collect();
    }
    let features = package
        .manifest
        .features
        .keys()
        .filter(|name| *name != "default");
    let silent = features.filter(|name| !page.contains(&format!("| `{name}`")));
    silent
        .map(|name| format!("the table in its README.md lacks the feature `{name}`"))
        .collect()
}

/// The files that its sources include, and the sources, are in the archive.
fn contents(package: &Published, files: &[String]) -> Found {
    let args = [
        "package",
        "--list",
        "--quiet",
        "--offline",
        "--allow-dirty",
        "--package",
    ];
    let listed = command::output(command::cargo().args(args).arg(&package.name))?;
    let packed: Vec<String> = listed
        .lines()
        .map(|line| format!("{}/{line}", package.folder))
        .collect();
    let mut found = Vec::new();
    for name in ["LICENSE-APACHE", "LICENSE-MIT", "README.md"] {
        let file = format!("{}/{name}", package.folder);
        found.extend(
            missing(&file, &packed, files).map(|what| Violation::new(&package.folder, 1, what)),
        );
    }
    let sources = format!("{}/src/", package.folder);
    for file in files
        .iter()
        .filter(|file| file.starts_with(&sources) && file.ends_with(".rs"))
    {
        found.extend(missing(file, &packed, files).map(|what| Violation::new(file, 1, what)));
        if !image::is_compiled(file) {
            continue;
        }
        let text = tree::text(file)?;
        for (line, path) in image::included(file, &text)
            .into_iter()
            .chain(migrations(package, &text))
        {
            found.extend(
                missing(&path, &packed, files).map(|what| Violation::new(file, line, what)),
            );
        }
    }
    Ok(found)
}

fn migrations(package: &Published, text: &str) -> Vec<(usize, String)> {
    let found = (1..).zip(text.lines()).filter_map(|(line, code)| {
        let (_, rest) = code.split_once(MIGRATIONS)?;
        Some((
            line,
            format!("{}/{}", package.folder, rest.split('"').next()?),
        ))
    });
    found.collect()
}

/// What the archive lacks of a path: a file, or of a folder any file that is tracked below it, also where the folder is a link.
fn missing(path: &str, packed: &[String], files: &[String]) -> Option<String> {
    let real = tree::target_of_links(path);
    let below = files
        .iter()
        .filter_map(|file| file.strip_prefix(&format!("{real}/")));
    let mut wanted: Vec<String> = below.map(|file| format!("{path}/{file}")).collect();
    if wanted.is_empty() {
        wanted.push(path.to_owned());
    }
    let lacking = wanted.into_iter().find(|file| !packed.contains(file))?;
    Some(format!(
        "the packed crate lacks `{lacking}`: name it in `include`; a file elsewhere needs a link in the folder of the crate"
    ))
}

#[cfg(test)]
mod tests {
    use super::{fields, missing, page_of, versions};
    use crate::publish::{Published, published};
    use cargo_metadata::DependencyKind;

    fn package(name: &str) -> Published {
        let all = published().unwrap();
        all.into_iter()
            .find(|package| package.name == name)
            .unwrap()
    }

    #[test]
    fn a_field_that_is_missing_is_named() {
        let mut kernel = package("counterstep-kernel");
        assert_eq!(fields(&kernel), [""; 0]);
        kernel.manifest.description = None;
        kernel.manifest.keywords.clear();
        let found = fields(&kernel);
        assert_eq!(found.len(), 2);
        assert!(
            found[0].contains("description") && found[1].contains("keywords"),
            "{found:?}"
        );
        let mut adapters = package("counterstep-adapters");
        adapters.manifest.metadata = Default::default();
        assert!(fields(&adapters)[0].contains("docs.rs"));
    }

    #[test]
    fn a_version_is_for_what_is_built_and_a_path_alone_for_what_is_tested() {
        let mut package = package("counterstep-tasks");
        assert_eq!(versions(&package), [""; 0]);
        for dependency in &mut package.manifest.dependencies {
            dependency.kind = match dependency.kind {
                DependencyKind::Development => DependencyKind::Normal,
                _ => DependencyKind::Development,
            };
        }
        let found = versions(&package).join("\n");
        assert!(
            found.contains("`counterstep-steps` is for tests"),
            "{found}"
        );
        assert!(
            found.contains("`counterstep-kernel` has no version"),
            "{found}"
        );
    }

    #[test]
    fn an_internal_crate_says_so_and_a_face_explains_its_features() {
        let kernel = page_of(&package("counterstep-kernel"), "# kernel");
        assert!(
            matches!(&kernel[..], [one] if one.contains("README.md")),
            "{kernel:?}"
        );
        let testkit = package("counterstep-testkit");
        let found = page_of(&testkit, "| `servers` | .. |\n| `services` | .. |");
        assert!(
            matches!(&found[..], [one] if one.contains("`s3-server`")),
            "{found:?}"
        );
    }

    #[test]
    fn a_file_that_is_not_packed_is_named_also_behind_a_link_to_a_folder() {
        let owned = |names: &[&str]| names.iter().map(|&it| it.to_owned()).collect::<Vec<_>>();
        let files = owned(&["deploy/compose.yaml", "deploy/nats/nats.conf"]);
        let link = "crates/counterstep/new/deploy";
        let packed = owned(&["crates/counterstep/new/deploy/compose.yaml", "a/b.sql"]);
        assert!(
            missing(link, &packed, &files)
                .unwrap()
                .contains("new/deploy/nats/nats.conf")
        );
        assert_eq!(missing(link, &packed, &files[..1]), None);
        assert_eq!(missing("a/b.sql", &packed, &files), None);
        assert!(missing("docs/no.md", &packed, &files).is_some());
    }
}
