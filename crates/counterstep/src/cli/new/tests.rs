//! The crate that `counterstep new` writes, without building it: `tests/tests/system/new_program.rs` does.

use super::name::ProgramName;
use super::templates::{
    CRATE, DEPLOY, END_OF_SHIPPED_ONLY, SHIPPED_ONLY, Source, Written, files, rendered,
};
use super::{checkout, write};
use crate::cli::{ALL, command};
use counterstep_steps::Registry;
use std::path::{Path, PathBuf};

/// What stays with this repository: how it is checked, and what is there for the shipped task types.
const NOT_WRITTEN: &[&str] = &[
    ".yamllint",
    "README.md",
    "check-chart.py",
    "check-keda.js",
    "check.sh",
    "kubernetes/worker-video.yaml",
];

fn name(text: &str) -> ProgramName {
    ProgramName::parse(text).expect("a name")
}

fn shop() -> Vec<Written> {
    files(&name("lamp-shop"), &Source::Repository)
}

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

fn below(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(below(&path));
        } else {
            found.push(path.to_str().expect("UTF-8").to_owned());
        }
    }
    found
}

#[test]
fn a_name_that_is_none_of_a_crate_or_a_bucket_is_refused_with_what_is_expected() {
    for good in ["abc", "my-app", "shop2", "a23456789012345678901234567890x"] {
        assert_eq!(name(good).as_str(), good);
    }
    assert_eq!(name("my-lamp-shop").identifier(), "my_lamp_shop");
    for (bad, why) in [
        ("", "0 characters"),
        ("ab", "2 characters"),
        ("a234567890123456789012345678901x", "32 characters"),
        ("MyApp", "the character `M`"),
        ("my_app", "the character `_`"),
        ("../app", "the character `.`"),
        ("my app", "the character ` `"),
        ("läden", "the character `ä`"),
        ("2shop", "begin with a letter"),
        ("-shop", "begin with a letter"),
        ("shop-", "between two other characters"),
        ("my--app", "between two other characters"),
        ("serde", "a meaning for it"),
        ("counterstep", "a meaning for it"),
        ("struct", "a meaning for it"),
    ] {
        let refused = ProgramName::parse(bad).expect_err(bad);
        assert!(
            refused.contains(why) && refused.contains("expected 3 to 31"),
            "{bad}: {refused}"
        );
    }
}

#[test]
fn every_file_of_deploy_is_written_with_the_name_replaced_and_nothing_else_changed() {
    let (written, top) = (shop(), deploy());
    for path in below(&top) {
        let relative = path.split_once("/deploy/").expect("a file of deploy").1;
        let is_template = DEPLOY.iter().any(|(known, _)| *known == relative);
        let stays = NOT_WRITTEN.contains(&relative);
        assert!(
            is_template != stays,
            "{relative}: written, or left out with a reason"
        );
    }
    for (path, _) in DEPLOY {
        let own = format!("deploy/{}", path.replace("counterstep", "lamp-shop"));
        let file = written.iter().find(|file| file.path == own);
        let file = file.unwrap_or_else(|| panic!("{own} is not written"));
        let template = std::fs::read_to_string(top.join(path)).expect("a template");
        let mut kept = String::new();
        for part in template.split_inclusive(&format!("{END_OF_SHIPPED_ONLY}\n")) {
            let own = part
                .split(&format!("{SHIPPED_ONLY}\n"))
                .next()
                .unwrap_or_default();
            // The indentation of the mark itself.
            kept.push_str(own.trim_end_matches(' '));
        }
        let back = file.text.replace("lamp-shop", "counterstep");
        assert_eq!(back, rendered(path, kept), "{path}");
    }
}

#[test]
fn the_marks_of_what_is_shipped_only_come_in_pairs() {
    let mut pairs = 0;
    for (path, template) in DEPLOY {
        let marks = template
            .lines()
            .map(str::trim)
            .filter(|line| line.ends_with("shipped only"));
        let marks: Vec<_> = marks.collect();
        let is_pair = |pair: &[&str]| pair == [SHIPPED_ONLY, END_OF_SHIPPED_ONLY];
        assert!(marks.chunks(2).all(is_pair), "{path}: {marks:?}");
        pairs += marks.len() / 2;
    }
    assert!(pairs > 0);
}

/// What of Counterstep a program of one's own goes on naming.
const OF_COUNTERSTEP: &[&str] = &[
    "counterstep_service",
    "counterstep_api",
    "counterstep_worker",
    "counterstep_owner",
    "counterstep_reconciler",
    "counterstep_operator",
    "counterstep_eraser",
    "counterstep_erase",
    "counterstep_submit_",
    "counterstep_tenant_of_role",
    "counterstep.tenant",
    "counterstep_refuse",
    "counterstep_submitter",
    "counterstep_submits",
    "counterstep_all",
    "counterstep_audit",
    "counterstep_read",
    "counterstep_work",
    "counterstep_upkeep",
    "counterstep_poison",
    // The streams that a program makes.
    "stream: counterstep-work\n",
    ".counterstep-work.",
    ".counterstep-work\"",
    ".counterstep-events\"",
    "https://github.com/counterstep/counterstep",
];

/// The files that name figures of metrics, which have the same names in every program.
const WITH_FIGURES: &[&str] = &["deploy/grafana/", "deploy/prometheus/"];

/// What its crate does, beside that.
const OF_THE_CRATE: &[&str] = &[
    "counterstep = {",
    "counterstep-testkit = {",
    "counterstep_testkit::",
    "counterstep::",
    "counterstep/servers",
    "counterstep-data",
];

#[test]
fn no_file_names_another_program_or_its_task_types() {
    for Written { path, text } in shop() {
        let left = OF_COUNTERSTEP
            .iter()
            .fold(text.clone(), |left, known| left.replace(known, ""));
        let of_crate: &[&str] = if path.starts_with("deploy/") {
            &[]
        } else {
            OF_THE_CRATE
        };
        let left = of_crate
            .iter()
            .fold(left, |left, known| left.replace(known, ""));
        let left = if WITH_FIGURES.iter().any(|folder| path.starts_with(folder)) {
            left.replace("counterstep_", "")
        } else {
            left
        };
        for foreign in [
            "counterstep",
            "my-app",
            "my_app",
            "REPOSITORY",
            "video",
            "orders",
            "file-processing",
            "ffmpeg",
        ] {
            let line = left.lines().find(|line| line.contains(foreign));
            assert_eq!(line, None, "{path} names `{foreign}`");
        }
        assert!(!path.contains("counterstep"), "{path}");
    }
}

#[test]
fn the_page_for_agents_is_short_and_names_files_and_commands_that_are_there() {
    let written = shop();
    let text_of = |path: &str| {
        let file = written.iter().find(|file| file.path == path);
        file.map(|file| file.text.as_str())
    };
    let page = text_of("AGENTS.md").expect("a page");
    let words = page.split_whitespace().count();
    assert!(words <= 500, "{words} words");

    let prose: String = page.split("```").step_by(2).collect();
    let spans: Vec<&str> = prose.split('`').skip(1).step_by(2).collect();
    // The files of the type that it adds.
    let is_added = |path: &str| path.contains("ship_order");
    let is_path = |span: &&str| span.starts_with("src/") || span.starts_with("tests/");
    for path in spans.iter().copied().filter(is_path) {
        assert!(is_added(path) || text_of(path).is_some(), "{path}");
    }

    let whole = command(&Registry::new(), ALL);
    let rows = prose
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .filter(|row| !row.starts_with("cargo run --`"));
    let of_rows = rows.filter_map(|row| row.split_once(" |"));
    let of_rows = of_rows.flat_map(|(cell, _)| cell.split("`, `"));
    let of_steps = spans
        .iter()
        .filter_map(|span| span.strip_prefix("cargo run -- "));
    let commands: Vec<_> = of_steps.chain(of_rows).collect();
    assert!(commands.contains(&"tasks why ID"), "{commands:?}");
    for line in commands {
        let words = line.trim_end_matches('`').split(' ');
        let mut found = &whole;
        for word in words.filter(|word| word.chars().all(|c| c.is_ascii_lowercase())) {
            found = found
                .find_subcommand(word)
                .unwrap_or_else(|| panic!("{line}"));
        }
    }
}

#[test]
fn a_file_is_named_once_and_in_its_folder() {
    let mut paths: Vec<_> = shop().into_iter().map(|file| file.path).collect();
    assert_eq!(paths.len(), CRATE.len() + DEPLOY.len());
    paths.sort();
    paths.dedup();
    assert_eq!(paths.len(), CRATE.len() + DEPLOY.len());
}

#[test]
fn a_folder_with_something_in_it_is_refused_and_stays_as_it_is() {
    let top = tempfile::tempdir().expect("a folder");
    let (taken, empty) = (top.path().join("taken"), top.path().join("empty"));
    for folder in [&taken, &empty] {
        std::fs::create_dir(folder).expect("a folder");
    }
    std::fs::write(taken.join("notes"), "mine").expect("a file");
    let refused = write(&taken, &shop()).expect_err("it is not empty");
    assert!(
        refused
            .message
            .contains("not empty; expected the name of a new folder"),
        "{refused}"
    );
    assert_eq!(below(&taken).len(), 1);
    write(&empty, &shop()).expect("an empty folder");
    assert_eq!(below(&empty).len(), shop().len());
    write(&empty, &shop()).expect_err("it is not empty any more");
}

#[test]
fn a_manifest_names_the_repository_or_the_checkout() {
    let manifest = |source: &Source| {
        let files = files(&name("lamp-shop"), source);
        files
            .into_iter()
            .find(|file| file.path == "Cargo.toml")
            .expect("a manifest")
            .text
    };
    let git = format!("{{ git = \"{}\"", env!("CARGO_PKG_REPOSITORY"));
    assert_eq!(manifest(&Source::Repository).matches(&git).count(), 2);
    let own = manifest(&Source::Checkout(r#"/home/a "b"/c"#.to_owned()));
    assert!(
        own.contains(
            r#"counterstep = { path = "/home/a \"b\"/c/crates/counterstep", default-features"#
        ),
        "{own}"
    );
    assert!(
        own.contains(r#"counterstep-testkit = { path = "/home/a \"b\"/c/crates/testkit" }"#),
        "{own}"
    );

    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let found = checkout(&top).expect("this checkout");
    let whole = top
        .canonicalize()
        .expect("a path")
        .to_str()
        .expect("UTF-8")
        .to_owned();
    assert_eq!(found, Source::Checkout(whole));
    for wrong in [deploy(), top.join("nowhere")] {
        let refused = checkout(&wrong).expect_err("no checkout");
        assert!(
            refused
                .message
                .contains("expected the folder of a Counterstep checkout"),
            "{refused}"
        );
    }
}
