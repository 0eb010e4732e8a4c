//! `counterstep profile`: names for the servers that a person talks to. Must not talk to one.

use super::output::{OutputArgs, print};
use super::remote::check_address;
use clap::Subcommand;
use counterstep_contracts::operation::shown::{Cell, Table, View};
use counterstep_node::Exit;
use counterstep_node::settings::{
    Profile, check_surroundings, profiles_file, read_profiles, write_profiles,
};
use serde::Serialize;
use std::path::PathBuf;

/// Flags of `profile`.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct ProfileArgs {
    #[command(subcommand)]
    command: ProfileCommand,
}

#[derive(Debug, Clone, Subcommand)]
enum ProfileCommand {
    /// Add a server, or replace the one of that name
    Add {
        /// The name that `--profile` takes
        #[arg(value_parser = name)]
        name: String,
        /// Address of its API
        #[arg(long)]
        url: String,
        /// The file with the API key or the access token for it
        #[arg(long)]
        token_file: Option<PathBuf>,
    },
    /// List the servers
    List {
        #[command(flatten)]
        out: OutputArgs,
    },
    /// Remove a server
    Remove {
        /// Its name
        name: String,
    },
}

/// As a shell and TOML take it without quotes.
fn name(text: &str) -> Result<String, String> {
    let is_plain = |sign: char| sign.is_ascii_alphanumeric() || "-_".contains(sign);
    if (1..=64).contains(&text.len()) && text.chars().all(is_plain) {
        return Ok(text.to_owned());
    }
    Err("expected 1 to 64 letters, digits, `-` and `_`".to_owned())
}

/// A profile as it is listed.
#[derive(Debug, Serialize)]
struct Listed {
    name: String,
    #[serde(flatten)]
    profile: Profile,
}

pub(super) fn main(args: &ProfileArgs) -> Result<(), Exit> {
    check_surroundings()?;
    let file = profiles_file()?;
    let mut all = read_profiles(&file)?;
    match &args.command {
        ProfileCommand::Add {
            name,
            url,
            token_file,
        } => {
            check_address(url, "--url")?;
            // It is read from whichever folder a command is typed in.
            let token_file = token_file.as_ref().map(std::path::absolute).transpose();
            let token_file = token_file.map_err(Exit::usage)?;
            if token_file
                .as_ref()
                .is_some_and(|file| file.to_str().is_none())
            {
                return Err(Exit::usage("--token-file: expected a path in UTF-8"));
            }
            let profile = Profile {
                url: url.clone(),
                token_file,
            };
            all.insert(name.clone(), profile);
            write_profiles(&file, &all)?;
            print(&format!("{name} is {url} in {}\n", file.display()))
        }
        ProfileCommand::List { out } => {
            let items: Vec<_> = all
                .into_iter()
                .map(|(name, profile)| Listed { name, profile })
                .collect();
            print(&out.show(&items, |items| table(items))?)
        }
        ProfileCommand::Remove { name } => {
            if all.remove(name).is_none() {
                return Err(Exit::failed(format_args!(
                    "there is no profile `{}` in {}",
                    name.escape_debug(),
                    file.display()
                )));
            }
            write_profiles(&file, &all)?;
            print(&format!("{name} is removed\n"))
        }
    }
}

fn table(items: &[Listed]) -> View {
    let row = |it: &Listed| {
        let token = it.profile.token_file.as_ref();
        let token = token.map(|file| file.display().to_string());
        vec![
            Cell::name(&it.name),
            Cell::of(&it.profile.url),
            Cell::text(token.as_deref()),
        ]
    };
    let heads = ["profile", "url", "token file"];
    View::Table(Table::of("profiles", &heads, items.iter().map(row)))
}
