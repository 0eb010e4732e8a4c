//! The commit that a release is built from, for `--version`. A debug build asks nothing: it would
//! be built anew for each commit. `COUNTERSTEP_COMMIT` says it where there is no repository: in an
//! image, or from an archive of the sources. A packed crate has it in a file of cargo's; a
//! repository around that one is another project's.

use std::process::Command;

/// What `cargo package` writes into a crate that it packs in a repository.
const PACKED_FROM: &str = ".cargo_vcs_info.json";

fn main() {
    println!("cargo:rerun-if-env-changed=COUNTERSTEP_COMMIT");
    println!("cargo:rerun-if-changed=build.rs");
    let given = std::env::var("COUNTERSTEP_COMMIT")
        .ok()
        .filter(|commit| !commit.trim().is_empty());
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let asked = || match std::fs::read_to_string(PACKED_FROM) {
        Ok(packed) => packed_from(&packed),
        Err(_) if is_release => from_git(),
        Err(_) => None,
    };
    let commit = given.map(|commit| commit.trim().to_owned()).or_else(asked);
    // Without the prefix of the settings: `cargo run` gives it to the program too, which refuses
    // settings that it does not know.
    println!(
        "cargo:rustc-env=BUILT_FROM_COMMIT={}",
        commit.as_deref().unwrap_or("unknown commit")
    );
}

/// Of `{"git": {"sha1": "COMMIT", "dirty": true}, ..}`.
fn packed_from(packed: &str) -> Option<String> {
    let (_, behind) = packed.split_once("\"sha1\"")?;
    let commit = behind.split('"').nth(1)?.get(..12)?;
    let changes = if packed.contains("\"dirty\": true") {
        ", with changes"
    } else {
        ""
    };
    Some(format!("{commit}{changes}"))
}

fn from_git() -> Option<String> {
    // Both change with a commit: a branch that is checked out, and where that branch is.
    for name in ["HEAD", "logs/HEAD"] {
        println!(
            "cargo:rerun-if-changed={}",
            git(&["rev-parse", "--git-path", name])?
        );
    }
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    Some(if changed.is_empty() {
        commit
    } else {
        format!("{commit}, with changes")
    })
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .args(arguments)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
