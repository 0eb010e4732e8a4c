//! The program of a release, built so that its bytes follow from the commit, the lock file and the compilers, and not from the
//! folders of the machine. Packs nothing.

use super::release::{FEATURES, PACKAGE, Release};
use crate::{command, tree};
use memchr::memmem;
use std::fs;
use std::path::{Path, PathBuf};

/// Builds it below a folder.
pub(super) fn program(release: &Release, folder: &Path) -> Result<PathBuf, String> {
    let names = Names::of(folder)?;
    let args = [
        "build",
        "--locked",
        "--release",
        "--package",
        PACKAGE,
        "--features",
        FEATURES,
    ];
    let mut cargo = command::cargo();
    cargo
        .args(args)
        .arg("--target-dir")
        .arg(folder)
        // Paths may have spaces: cargo splits this one by a character of its own.
        .env_remove("RUSTFLAGS")
        .env("CARGO_ENCODED_RUSTFLAGS", names.rustc().join("\x1f"))
        .env("CFLAGS", names.c_compiler().join(" "))
        .env("CXXFLAGS", names.c_compiler().join(" "))
        .env("CARGO_INCREMENTAL", "0")
        .env("SOURCE_DATE_EPOCH", release.seconds.to_string())
        .env("COUNTERSTEP_COMMIT", &release.commit);
    command::run(&mut cargo)?;
    let program = folder.join("release").join(PACKAGE);
    let bytes = fs::read(&program)
        .map_err(|error| format!("{} was not built: {error}", program.display()))?;
    match names.found_in(&bytes) {
        Some(path) => Err(format!(
            "the program names the folder `{path}` of this machine: another one builds other bytes"
        )),
        None => Ok(program),
    }
}

/// Folders of the machine, and the names that the program has for them.
struct Names(Vec<(String, &'static str)>);

impl Names {
    fn of(folder: &Path) -> Result<Self, String> {
        let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
        let home = home.ok_or("neither CARGO_HOME nor HOME is set")?;
        let system = command::output(command::at_top("rustc").args(["--print", "sysroot"]))?;
        // The last that fits is taken, so the folder comes behind the one that it lies in.
        let folders = [
            (tree::top(), "/counterstep"),
            (folder.to_owned(), "/target"),
            (home, "/cargo"),
            (PathBuf::from(system.trim()), "/rust"),
        ];
        let names = folders.into_iter().map(|(path, name)| {
            let text = path.to_str().map(str::to_owned);
            let text = text.ok_or_else(|| format!("{} is not UTF-8", path.display()))?;
            Ok::<_, String>((text, name))
        });
        names.collect::<Result<_, _>>().map(Self)
    }

    fn rustc(&self) -> Vec<String> {
        let flag = |(path, name): &(String, _)| format!("--remap-path-prefix={path}={name}");
        self.0.iter().map(flag).collect()
    }

    /// SQLite, ring and the allocator are C.
    fn c_compiler(&self) -> Vec<String> {
        let flag = |(path, name): &(String, _)| format!("-ffile-prefix-map={path}={name}");
        self.0.iter().map(flag).collect()
    }

    /// A folder of the machine that stands in the bytes.
    fn found_in(&self, bytes: &[u8]) -> Option<&str> {
        // Followed by a separator: a short one may be part of another word.
        let stands = |path: &&str| memmem::find(bytes, format!("{path}/").as_bytes()).is_some();
        self.0.iter().map(|(path, _)| path.as_str()).find(stands)
    }
}

#[cfg(test)]
mod tests {
    use super::Names;

    #[test]
    fn a_folder_of_the_machine_is_found_in_the_program() {
        let names = Names(vec![
            ("/home/me/src".to_owned(), "/counterstep"),
            ("/home/me/.cargo".to_owned(), "/cargo"),
        ]);
        let found = |bytes: &[u8]| names.found_in(bytes).map(str::to_owned);
        assert_eq!(found(b"\0/cargo/registry/a.rs\0"), None);
        assert_eq!(found(b"\0/home/me/srcs\0/counterstep/b.rs"), None);
        let wanted = Some("/home/me/.cargo".to_owned());
        assert_eq!(found(b"\0/home/me/.cargo/registry/a.rs\0"), wanted);
    }
}
