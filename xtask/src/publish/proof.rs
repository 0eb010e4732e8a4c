//! That the archives are enough: a crate in a temporary folder takes them in place of the registry, with the program that README.md
//! shows and its tests. What is built there reads nothing of the repository but its versions and profiles.

use super::{Published, archive};
use crate::{command, outside, tree};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const NAME: &str = "book-seat";

/// The file that README.md quotes.
const PROGRAM: &str = "crates/counterstep/tests/program/book_seat.rs";

/// What is submitted, the code with which the command ends, and what it must have printed.
const TASKS: [(&str, i32, &str); 2] = [
    (
        r#"{"seat":"12A","card":"4711"}"#,
        0,
        "response: \"paid for 12A",
    ),
    (r#"{"seat":"12B","card":""}"#, 1, "reserve: compensated"),
];

pub(super) fn run(packages: &[Published]) -> Result<(), String> {
    let folder = std::env::temp_dir().join(format!("counterstep-packed-{}", std::process::id()));
    // A new one: in a folder that is there already another user could exchange what is built.
    fs::create_dir(&folder).map_err(|error| failed(&folder, &error))?;
    let proof = Proof { folder };
    let proved = proof
        .write(packages)
        .and_then(|()| proof.build(packages))
        .and_then(|()| proof.serve());
    proved.map_err(|why| format!("{why}; what was unpacked is in {}", proof.folder.display()))?;
    fs::remove_dir_all(&proof.folder).map_err(|error| failed(&proof.folder, &error))
}

/// A crate with the unpacked archives. Its folder stays where a part fails.
struct Proof {
    folder: PathBuf,
}

impl Proof {
    fn write(&self, packages: &[Published]) -> Result<(), String> {
        let unpacked = self.folder.join("packages");
        for folder in [&unpacked, &self.folder.join("src")] {
            fs::create_dir(folder).map_err(|error| failed(folder, &error))?;
        }
        for package in packages {
            let mut tar = command::at_top("tar");
            // With the time of now: that of the archive is always the same, and cargo would take what a former proof has built.
            tar.arg("-xzmf")
                .arg(archive(package))
                .arg("-C")
                .arg(&unpacked);
            command::run(&mut tar)?;
        }
        tree::copy(
            &tree::top().join("Cargo.lock"),
            &self.folder.join("Cargo.lock"),
        )?;
        self.put("Cargo.toml", &manifest(packages))?;
        self.put("src/main.rs", &program(&tree::text("README.md")?)?)
    }

    fn put(&self, name: &str, text: &str) -> Result<(), String> {
        let path = self.folder.join(name);
        fs::write(&path, text).map_err(|error| failed(&path, &error))
    }

    fn cargo(&self, args: &[&str]) -> Result<(), String> {
        let mut cargo = outside::cargo(&self.folder)?;
        cargo.args(args).args(["--quiet", "--offline"]);
        println!("cargo {}", args.join(" "));
        command::run(&mut cargo)
    }

    /// The crate, with its tests; and each package alone, as cargo builds it before it uploads it, and with all features.
    fn build(&self, packages: &[Published]) -> Result<(), String> {
        self.cargo(&["build", "--package", NAME])?;
        // In the profile of the build: what both depend on is built once.
        self.cargo(&["test", "--profile", "dev", "--package", NAME])?;
        for package in packages {
            self.cargo(&["check", "--package", &package.name])?;
        }
        self.cargo(&["check", "--workspace", "--all-features"])
    }

    /// Serves, and runs a task that completes and one that is undone.
    fn serve(&self) -> Result<(), String> {
        let mut server =
            Server::start(self.program(&["dev", "--listen", "127.0.0.1:0", "--log", "warn"]))?;
        let url = server.url()?;
        for (request, code, wanted) in TASKS {
            let args = [
                "tasks",
                "submit",
                NAME,
                "--wait",
                "--url",
                &url,
                "--request",
                request,
            ];
            let mut submit = self.program(&args);
            println!("{}", command::shown(&submit));
            let output = submit
                .output()
                .map_err(|error| format!("{NAME}: {error}"))?;
            let seen = String::from_utf8_lossy(&output.stdout);
            print!("{seen}{}", String::from_utf8_lossy(&output.stderr));
            if output.status.code() != Some(code) || !seen.contains(wanted) {
                return Err(format!(
                    "{}; expected code {code} and `{wanted}`",
                    output.status
                ));
            }
        }
        Ok(())
    }

    /// The program that was built, in the folder, with none of the settings around us.
    fn program(&self, args: &[&str]) -> Command {
        let mut command = Command::new(tree::target().join("debug").join(NAME));
        command.env_clear().current_dir(&self.folder).args(args);
        command
    }
}

/// Ends with its owner.
struct Server {
    process: Child,
}

impl Server {
    fn start(mut command: Command) -> Result<Self, String> {
        let process = command.stdout(Stdio::piped()).spawn();
        let process = process.map_err(|error| format!("{}: {error}", command::shown(&command)))?;
        Ok(Self { process })
    }

    /// The address that it prints once it serves.
    fn url(&mut self) -> Result<String, String> {
        let output = self.process.stdout.take().ok_or("its output is not read")?;
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            println!("{line}");
            let address = line
                .strip_prefix("submit to ")
                .and_then(|line| line.split_once("/api/"));
            if let Some((url, _)) = address {
                return Ok(url.to_owned());
            }
        }
        Err(format!("`{NAME} dev` ended before it served"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The manifest of the crate: on the registry but for the packages, which are its workspace so that each is built with all features.
fn manifest(packages: &[Published]) -> String {
    let patches = packages.iter().map(|package| {
        let Published { name, version, .. } = package;
        format!("{name} = {{ path = \"packages/{name}-{version}\" }}\n")
    });
    let version = packages.last().map_or("", |package| &package.version);
    format!(
        r#"[package]
name = "{NAME}"
edition = "2024"

[workspace]
members = ["packages/*"]

[dependencies]
counterstep = {{ version = "{version}", default-features = false }}
serde = {{ version = "1", features = ["derive"] }}

[dev-dependencies]
counterstep-testkit = "{version}"
tokio = {{ version = "1", features = ["macros", "rt-multi-thread"] }}

[patch.crates-io]
{}"#,
        patches.collect::<String>()
    )
}

/// The blocks of README.md that quote the program, as its reader puts them together.
fn program(readme: &str) -> Result<String, String> {
    let fence = format!("```rust,ignore (from {PROGRAM})\n");
    let blocks = readme
        .split(&fence)
        .skip(1)
        .filter_map(|rest| rest.split_once("```"));
    let blocks: Vec<_> = blocks.map(|(block, _)| block).collect();
    match blocks.len() {
        2 => Ok(blocks.join("\n")),
        count => Err(format!(
            "README.md quotes {PROGRAM} in {count} blocks; expected the program and its tests"
        )),
    }
}

fn failed(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::program;
    use crate::tree;

    #[test]
    fn the_readme_has_the_program_and_its_tests() {
        let text = program(&tree::text("README.md").unwrap()).unwrap();
        assert!(
            text.contains("fn main()") && text.contains("#[cfg(test)]"),
            "{text}"
        );
        assert!(program("no block").is_err());
    }
}
