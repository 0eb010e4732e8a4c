//! `cargo xtask publish --dry-run`: packs every crate that is published, in the order in which the registry must get them.
//! With `--prove`, a crate that has nothing but the archives is built and run. It uploads nothing.

mod packages;
mod proof;

pub(crate) use packages::{Published, published};

use crate::{command, tree};
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

/// Packs, and proves what was packed.
pub(crate) fn run(prove: bool) -> Result<(), String> {
    let packages = published()?;
    pack(&packages)?;
    for (number, package) in (1..).zip(&packages) {
        let size = fs::metadata(archive(package))
            .map_err(|error| format!("{} was not packed: {error}", package.name))?
            .len();
        println!(
            "{number:2}. {} {} ({} KiB)",
            package.name,
            package.version,
            size / 1024
        );
    }
    if prove {
        let start = Instant::now();
        proof::run(&packages)?;
        println!("proved in {} s", start.elapsed().as_secs());
    }
    Ok(())
}

fn pack(packages: &[Published]) -> Result<(), String> {
    // What a change that is not committed yet packs is of interest too. The code is compiled by the proof, once for all.
    let args = [
        "package",
        "--quiet",
        "--offline",
        "--allow-dirty",
        "--no-verify",
    ];
    let selected = packages
        .iter()
        .flat_map(|package| ["--package", &package.name]);
    command::output(command::cargo().args(args).args(selected)).map(drop)
}

/// Where cargo puts what it packs.
fn archive(package: &Published) -> PathBuf {
    let name = format!("{}-{}.crate", package.name, package.version);
    tree::target().join("package").join(name)
}
