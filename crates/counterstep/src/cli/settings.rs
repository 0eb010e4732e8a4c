//! `counterstep settings`: what a program can do with a settings file. Must not know a setting.

use super::output::print;
use clap::Subcommand;
use counterstep_node::{Exit, settings};
use std::path::PathBuf;

/// Flags of `settings`.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct SettingsCommand {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Clone, Subcommand)]
enum Command {
    /// Replace the names that settings had in earlier releases; comments stay as they are
    Upgrade {
        /// The settings file
        file: PathBuf,
    },
}

pub(super) fn main(args: &SettingsCommand) -> Result<(), Exit> {
    let Command::Upgrade { file } = &args.command;
    let changes = settings::upgrade(file)?;
    if changes.is_empty() {
        return print("no former names in it: nothing was changed\n");
    }
    print(&(changes.join("\n") + "\n"))
}
