//! `cargo xtask dist`: the archive of a release, for the target of the machine that builds it. Two halves: the first compiles
//! the program, the second makes the same bytes of the same contents. Uploads nothing.

mod build;
mod contents;
mod crates;
mod licences;
mod pack;
mod release;
mod sbom;

use crate::tree;
use pack::Contents;
use release::Release;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::Path;
use std::time::Instant;

/// Builds the archive; `twice`: once more in another folder, and compares.
pub(crate) fn run(twice: bool) -> Result<(), String> {
    let release = Release::of_the_commit()?;
    let folder = tree::target().join("dist");
    let contents = built(&release, &folder.join("build"))?;
    let archive = pack::archive(&release.name(), &contents, release.seconds)?;
    if twice {
        let again = built(&release, &folder.join("build-again"))?;
        let differing = pack::differing(&contents, &again);
        if !differing.is_empty() {
            return Err(format!(
                "a second build differs in: {}",
                differing.join(", ")
            ));
        }
        let again = hash(&pack::archive(&release.name(), &again, release.seconds)?);
        if again != hash(&archive) {
            return Err("the same contents were packed to other bytes".to_owned());
        }
        println!("the second build has the same hash: {again}");
    }
    write(&release, &folder, &contents, &archive)
}

fn built(release: &Release, folder: &Path) -> Result<Contents, String> {
    let start = Instant::now();
    let program = build::program(release, folder)?;
    println!("built in {} s", start.elapsed().as_secs());
    contents::of(release, &program, &folder.join("man"))
}

/// The archive, the bill of materials beside it, and the hashes of both.
fn write(
    release: &Release,
    folder: &Path,
    contents: &Contents,
    archive: &[u8],
) -> Result<(), String> {
    let bill = &contents[contents::BILL].bytes;
    let files = [
        (format!("{}.tar.gz", release.name()), archive),
        (format!("{}.cdx.json", release.name()), bill),
    ];
    let mut sums = String::new();
    for (name, bytes) in &files {
        put(&folder.join(name), bytes)?;
        sums += &format!("{}  {name}\n", hash(bytes));
        println!(
            "{} ({} KiB)",
            folder.join(name).display(),
            bytes.len() / 1024
        );
    }
    put(&folder.join("SHA256SUMS"), sums.as_bytes())?;
    print!("{sums}");
    Ok(())
}

fn put(path: &Path, bytes: &[u8]) -> Result<(), String> {
    fs::write(path, bytes).map_err(|error| format!("{} cannot be written: {error}", path.display()))
}

fn hash(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
