//! `deploy render`: writes what compose file, manifests, units and rights have of the kinds of processes and of the program's own
//! task types. Touches nothing else in them. `deploy chart` makes a Helm chart of them.

mod chart;
#[cfg(test)]
#[path = "chart/tests.rs"]
mod chart_tests;
mod processes;
pub(super) mod render;
#[cfg(test)]
mod tests;

use super::output::print;
use chart::{OPTIONAL_TEMPLATES, TEMPLATES, Values, about, roles, template};
use counterstep_node::Exit;
use counterstep_steps::Registry;
use render::{Facts, RENDERED, render};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Flags of `deploy`.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct DeployArgs {
    #[command(subcommand)]
    command: DeployCommand,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum DeployCommand {
    /// Write the processes, queues and tables of this program into the files that deploy it
    Render(RenderArgs),
    /// Write a Helm chart that is made of the Kubernetes manifests
    Chart(ChartArgs),
}

#[derive(Debug, Clone, clap::Args)]
struct ChartArgs {
    /// Folder of the files
    #[arg(long, value_name = "FOLDER", default_value = "deploy")]
    folder: PathBuf,
    /// Folder to write the chart to; one that is there is written over
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
}

#[derive(Debug, Clone, clap::Args)]
struct RenderArgs {
    /// Folder of the files
    #[arg(long, value_name = "FOLDER", default_value = "deploy")]
    folder: PathBuf,
    /// Prefix of subjects and streams, as the setting `nats_prefix`
    #[arg(long, value_name = "PREFIX")]
    nats_prefix: Option<String>,
    /// Write nothing; print what differs, and exit with 1 where something does
    #[arg(long)]
    check: bool,
}

pub(super) fn main(registry: &Registry, args: &DeployArgs, program: &str) -> Result<(), Exit> {
    match &args.command {
        DeployCommand::Render(args) => write_rendered(registry, args, program),
        DeployCommand::Chart(args) => write_chart(args, program),
    }
}

fn write_rendered(registry: &Registry, args: &RenderArgs, program: &str) -> Result<(), Exit> {
    let facts = Facts::of(registry, program, args.nats_prefix.clone());
    let mut is_there = false;
    let mut differing = Vec::new();
    for path in RENDERED {
        let file = args.folder.join(path.replace("counterstep", program));
        let Some(text) = read(&file)? else {
            // One that deploys without Kubernetes has dropped that folder.
            continue;
        };
        is_there = true;
        let rendered = render(&text, &facts)
            .map_err(|why| Exit::config(format_args!("{}: {why}", file.display())))?;
        if rendered == text {
            continue;
        }
        if args.check {
            print(&difference(&file, &text, &rendered))?;
        } else {
            fs::write(&file, rendered)
                .map_err(|error| Exit::failed(format_args!("{}: {error}", file.display())))?;
        }
        differing.push(file.display().to_string());
    }
    if !is_there {
        return Err(Exit::config(format_args!(
            "the folder `{}` has no file of {}, such as {}: expected the files that `counterstep new` writes, in --folder",
            args.folder.display(),
            program,
            RENDERED[0]
        )));
    }
    match (args.check, differing.len()) {
        (_, 0) => print("up to date\n"),
        (false, _) => print(&format!("written: {}\n", differing.join(", "))),
        (true, count) => Err(Exit::failed(format_args!(
            "{count} files differ from the task types of this program: run `deploy render`"
        ))),
    }
}

fn write_chart(args: &ChartArgs, program: &str) -> Result<(), Exit> {
    let files = chart_of(&args.folder, program)?;
    let count = files.len();
    for (path, text) in files {
        let file = args.out.join(path);
        let failed =
            |error: std::io::Error| Exit::failed(format_args!("{}: {error}", file.display()));
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        fs::write(&file, text).map_err(failed)?;
    }
    print(&format!(
        "written: {count} files in {}\n",
        args.out.display()
    ))
}

/// The files of the chart by path and text.
fn chart_of(folder: &Path, program: &str) -> Result<Vec<(String, String)>, Exit> {
    let version = env!("CARGO_PKG_VERSION");
    let needed = |path: &str| {
        let file = folder.join(path);
        let missing = || Exit::config(format_args!("there is no {}", file.display()));
        read(&file)?.ok_or_else(missing)
    };
    let mut values = Values::default();
    let sql = needed("postgres/roles.sql")?;
    let mut files = vec![
        ("Chart.yaml".to_owned(), about(program, version)),
        ("templates/roles.yaml".to_owned(), roles(&sql)),
    ];
    let mut manifests = Vec::new();
    for name in TEMPLATES {
        manifests.push((name, needed(&format!("kubernetes/{name}"))?));
    }
    for name in OPTIONAL_TEMPLATES {
        let manifest = read(&folder.join("kubernetes").join(name))?;
        manifests.extend(manifest.map(|text| (name, text)));
    }
    for (name, manifest) in manifests {
        let made = template(&manifest, version, &mut values)
            .map_err(|why| Exit::config(format_args!("kubernetes/{name}: {why}")))?;
        files.push((format!("templates/{name}"), made));
    }
    files.push(("values.yaml".to_owned(), values.text()));
    Ok(files)
}

fn read(file: &Path) -> Result<Option<String>, Exit> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Exit::config(format_args!("{}: {error}", file.display()))),
    }
}

/// The lines that only one of the texts has.
fn difference(file: &Path, found: &str, wanted: &str) -> String {
    let only = |text: &str, other: &str, sign: char| {
        let mut left: Vec<&str> = other.lines().collect();
        let mut lines = String::new();
        for line in text.lines() {
            match left.iter().position(|it| *it == line) {
                Some(at) => {
                    left.swap_remove(at);
                }
                None => lines.push_str(&format!("{sign} {}\n", line.trim_start())),
            }
        }
        lines
    };
    let (superfluous, missing) = (only(found, wanted, '-'), only(wanted, found, '+'));
    format!("{}:\n{superfluous}{missing}", file.display())
}
