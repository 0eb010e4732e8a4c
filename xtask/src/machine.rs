//! What the tests need from the machine besides Rust: looked for, and on Debian installed when we may.

use crate::command;
use std::path::Path;

struct Need {
    program: &'static str,
    packages: &'static [&'static str],
    why: &'static str,
}

const NEEDS: &[Need] = &[
    Need { program: "cc", packages: &["gcc", "libc6-dev"], why: "the bundled SQLite is compiled from C" },
    Need {
        program: "unzip",
        packages: &["unzip"],
        why: "a finished archive is opened with a program that is not ours",
    },
];

/// Sees to it that all of it is there.
pub(crate) fn prepare() -> Result<(), String> {
    let missing: Vec<&Need> = NEEDS.iter().filter(|need| command::on_path(need.program).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> = missing.iter().flat_map(|need| need.packages).copied().collect();
    let wanted: Vec<String> = missing.iter().map(|need| format!("`{}` ({})", need.program, need.why)).collect();
    let by_hand = format!(
        "this machine lacks {}. Install it as root: apt-get install {}",
        wanted.join(" and "),
        packages.join(" ")
    );
    if command::on_path("apt-get").is_none() || !is_root() {
        return Err(by_hand);
    }
    println!("xtask: installing {}", packages.join(" "));
    install(&packages).map_err(|error| format!("{by_hand}\n({error})"))
}

fn install(packages: &[&str]) -> Result<(), String> {
    let apt = || {
        let mut command = command::at_top("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").arg("--quiet");
        command
    };
    // An image without package lists is the usual case, stale lists the second most usual.
    command::run(apt().arg("update"))?;
    command::run(apt().args(["install", "--yes", "--no-install-recommends"]).args(packages))
}

/// Asks the kernel: the standard library has no `geteuid`, and a dependency for it would be compiled first of all.
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    Path::new("/proc/self").metadata().is_ok_and(|own| own.uid() == 0)
}
