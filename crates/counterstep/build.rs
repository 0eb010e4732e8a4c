//! The commit that a release is built from, for `--version`. A debug build asks nothing: it would
//! be built anew for each commit. `COUNTERSTEP_COMMIT` says it where there is no repository: in an
//! image, or from an archive of the sources.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=COUNTERSTEP_COMMIT");
    println!("cargo:rerun-if-changed=build.rs");
    let given = std::env::var("COUNTERSTEP_COMMIT")
        .ok()
        .filter(|commit| !commit.trim().is_empty());
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let asked = || if is_release { from_git() } else { None };
    let commit = given.map(|commit| commit.trim().to_owned()).or_else(asked);
    // Without the prefix of the settings: `cargo run` gives it to the program too, which refuses
    // settings that it does not know.
    println!(
        "cargo:rustc-env=BUILT_FROM_COMMIT={}",
        commit.as_deref().unwrap_or("unknown commit")
    );
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
