//! The half that packs, with a script in place of the program.

use super::release::{PACKAGE, Release, host};
use super::{contents, hash, licences, pack};
use flate2::read::GzDecoder;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// It has no environment, and so no program but the shell's own.
const PROGRAM: &str = r#"#!/bin/sh
case "$1" in
completions) echo "complete for $2 $HOME" ;;
man) for page in b a; do echo ".TH $page" >"$2/counterstep-$page.1"; done ;;
*) exit 2 ;;
esac
"#;

fn release() -> Release {
    Release {
        version: "0.1.0".to_owned(),
        target: host().expect("a host"),
        commit: "0123456789ab".to_owned(),
        seconds: 1_700_000_000,
        time: "2023-11-14T22:13:20Z".to_owned(),
    }
}

fn program(folder: &Path) -> PathBuf {
    let path = folder.join("counterstep");
    fs::write(&path, PROGRAM).expect("a program");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("its rights");
    path
}

fn contents_in(folder: &Path) -> pack::Contents {
    contents::of(&release(), &program(folder), &folder.join("man")).expect("contents")
}

#[test]
fn the_same_program_is_packed_to_the_same_bytes_from_any_folder() {
    let packed = || {
        let folder = tempfile::tempdir().expect("a folder");
        let contents = contents_in(folder.path());
        let archive = pack::archive(&release().name(), &contents, release().seconds);
        (contents, archive.expect("an archive"))
    };
    let ((first, archive), (second, again)) = (packed(), packed());
    assert_eq!(pack::differing(&first, &second), Vec::<String>::new());
    assert_eq!(hash(&archive), hash(&again));

    let mut unpacked = tar::Archive::new(GzDecoder::new(&*archive));
    let mut paths = Vec::new();
    for entry in unpacked.entries().expect("entries") {
        let mut entry = entry.expect("an entry");
        let path = entry.path().expect("a path").display().to_string();
        let header = entry.header();
        assert_eq!(header.mtime().expect("a time"), 1_700_000_000, "{path}");
        let owner = (
            header.uid().expect("a user"),
            header.gid().expect("a group"),
        );
        assert_eq!(owner, (0, 0), "{path}");
        let wanted = if path.ends_with("/counterstep") {
            0o755
        } else {
            0o644
        };
        assert_eq!(header.mode().expect("rights"), wanted, "{path}");
        let mut text = String::new();
        entry.read_to_string(&mut text).expect("a text");
        assert!(!text.is_empty(), "{path}");
        paths.push(path);
    }
    let sorted: BTreeSet<String> = paths.iter().cloned().collect();
    assert_eq!(paths, sorted.into_iter().collect::<Vec<_>>());
    for name in [
        "counterstep",
        "LICENSE-MIT",
        "README.md",
        "THIRD-PARTY-LICENSES",
        "completions/_counterstep",
        "man/man1/counterstep-a.1",
        "sbom.cdx.json",
    ] {
        let path = format!("{}/{name}", release().name());
        assert!(paths.contains(&path), "{path}: {paths:?}");
    }
}

#[test]
fn a_file_that_differs_or_is_missing_is_named() {
    let of = |files: &[(&str, &str)]| -> pack::Contents {
        let files = files.iter();
        files
            .map(|&(path, text)| (path.to_owned(), pack::File::text(text)))
            .collect()
    };
    let first = of(&[("a", "1"), ("b", "1"), ("c", "1")]);
    let second = of(&[("a", "1"), ("b", "2"), ("d", "1")]);
    assert_eq!(pack::differing(&first, &second), ["b", "c", "d"]);
}

#[test]
fn licences_and_bill_have_the_crates_of_the_program_and_no_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let contents = contents_in(folder.path());
    let text = |name: &str| String::from_utf8(contents[name].bytes.clone()).expect("UTF-8");
    let licences = text(licences::NAME);
    for (crate_, is_there) in [
        ("serde ", true),
        // Of the servers alone.
        ("async-nats ", true),
        // SQLite, the allocator and cryptography, which are C.
        ("libsqlite3-sys ", true),
        ("libmimalloc-sys ", true),
        ("ring ", true),
        ("counterstep-kernel ", false),
        // Macros run while the program is built; the last are of the tests and of this command.
        ("serde_derive ", false),
        ("trybuild ", false),
        ("tar ", false),
    ] {
        let found = licences.lines().any(|line| line.starts_with(crate_));
        assert_eq!(found, is_there, "{crate_}");
    }
    assert!(licences.contains("Permission is hereby granted"));

    let bill: Value = serde_json::from_str(&text(contents::BILL)).expect("JSON");
    let components = bill["components"].as_array().expect("components");
    let of = |name: &str| components.iter().find(|it| it["name"] == name);
    assert_eq!(of("serde").expect("serde")["scope"], "required");
    assert_eq!(of("serde").expect("serde")["hashes"][0]["alg"], "SHA-256");
    assert_eq!(
        of("serde_derive").expect("serde_derive")["scope"],
        "excluded"
    );
    assert!(of("counterstep-kernel").expect("the kernel")["hashes"].is_null());
    assert!(of("trybuild").is_none() && of("tar").is_none());
    assert_eq!(bill["metadata"]["timestamp"], "2023-11-14T22:13:20Z");

    // Each reference leads to a component, and each stands there once, as the schema has it.
    let program = &bill["metadata"]["component"];
    let refs: Vec<_> = components
        .iter()
        .chain([program])
        .map(|it| &it["bom-ref"])
        .collect();
    let once: BTreeSet<_> = refs.iter().map(|it| it.as_str().expect("a text")).collect();
    assert_eq!(once.len(), refs.len());
    for dependency in bill["dependencies"].as_array().expect("dependencies") {
        let on = dependency["dependsOn"].as_array().expect("a list");
        for one in on.iter().chain([&dependency["ref"]]) {
            assert!(once.contains(one.as_str().expect("a text")), "{one}");
        }
    }
}

/// What `cargo binstall` makes of the manifest is what is published.
#[test]
fn the_manifest_says_where_the_archive_is() {
    let packages = crate::publish::published().expect("packages");
    let own = packages.iter().find(|it| it.name == PACKAGE);
    let manifest = &own.expect("the program's package").manifest;
    let release = release();
    let filled = |key: &str| {
        let template = manifest.metadata["binstall"][key]
            .as_str()
            .expect("a template");
        [
            (
                "{ repo }",
                manifest.repository.as_deref().expect("a repository"),
            ),
            ("{ version }", release.version.as_str()),
            ("{ target }", release.target.as_str()),
            ("{ name }", manifest.name.as_str()),
            ("{ bin }", PACKAGE),
            ("{ binary-ext }", ""),
        ]
        .iter()
        .fold(template.to_owned(), |text, (key, value)| {
            text.replace(key, value)
        })
    };
    let archive = format!("/releases/download/v0.1.0/{}.tar.gz", release.name());
    assert!(
        filled("pkg-url").ends_with(&archive),
        "{}",
        filled("pkg-url")
    );
    assert_eq!(filled("bin-dir"), format!("{}/counterstep", release.name()));
}
