//! The flags and variables of a command, which its settings declare, and the reading of the settings
//! file that they name. Must not check one value against another.

use super::check_surroundings;
use super::commands;
use super::file::{holds_password, read_file};
use super::for_tests::{self, ForTests};
use super::former;
use super::groups::{Group, takes};
use super::layers::Layers;
use super::profiles::values_of;
use super::table::{SETTINGS, SettingValues};
use crate::exit::Exit;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use std::ops::Deref;

/// What the flags and variables of a command give.
#[derive(Debug, Clone)]
pub struct SettingsArgs {
    /// The settings.
    pub values: SettingValues,
    /// Which settings the command takes, as [`uses`](super::commands::uses) counts them.
    pub(crate) uses: u32,
    /// For tests.
    pub(crate) for_tests: ForTests,
}

/// Nothing is given, and all settings of services count.
impl Default for SettingsArgs {
    fn default() -> Self {
        SettingsArgs {
            values: SettingValues::default(),
            uses: commands::DEV,
            for_tests: ForTests::default(),
        }
    }
}

impl SettingsArgs {
    /// Reads the settings file, where one is named.
    ///
    /// # Errors
    /// [`Exit`] with the kind `Config`, naming the variable, or the place in the file.
    pub fn read(&self) -> Result<Layers, Exit> {
        check_surroundings()?;
        let config = self.values.config.clone();
        let file = config
            .as_deref()
            .map_or_else(|| Ok(SettingValues::default()), read_file)?;
        Ok(Layers {
            first: self.values.clone(),
            secret_config: config.filter(|_| holds_password(&file)),
            file: match &self.values.profile {
                // The key of one server must not go to another one.
                Some(_) if self.values.url.is_some() || self.values.token_file.is_some() => {
                    return Err(Exit::config(
                        "setting `profile`: a profile has an address and a key of its own; expected no --url, --token-file, \
                         COUNTERSTEP_URL or COUNTERSTEP_TOKEN_FILE beside it",
                    ));
                }
                Some(name) => values_of(name)?,
                None => file.only(self.uses),
            },
            uses: self.uses,
            for_tests: self.for_tests.clone(),
        })
    }
}

impl Layers {
    /// What the variables `COUNTERSTEP_*` give, and the settings file that one of them names: for a
    /// program with a command line of its own.
    ///
    /// # Errors
    /// [`Exit`] with the kind `Config`, naming the variable, or the place in the file.
    pub fn from_variables() -> Result<Self, Exit> {
        type Args = SettingsFor<{ commands::DEV }>;
        let command = Args::augment_args(Command::new("variables").no_binary_name(true));
        let matches = command.try_get_matches_from([""; 0]);
        let matches = matches.map_err(|error| Exit::config(error.to_string().trim_end()))?;
        let given = Args::from_arg_matches(&matches);
        given
            .map_err(|error| Exit::config(error.to_string().trim_end()))?
            .read()
    }
}

/// The flags and variables of a command that takes these settings.
#[derive(Debug, Clone, Default)]
pub struct SettingsFor<const USES: u32>(pub SettingsArgs);

impl<const USES: u32> Deref for SettingsFor<USES> {
    type Target = SettingsArgs;

    fn deref(&self) -> &SettingsArgs {
        &self.0
    }
}

impl<const USES: u32> Args for SettingsFor<USES> {
    fn augment_args(command: Command) -> Command {
        let taken = SETTINGS.iter().filter(|it| takes(USES, it.group));
        let command = command.args(taken.filter_map(|it| it.arg()));
        // One line of flags serves all commands of an installation, as one file and one set of variables do.
        let command = if takes(USES, Group::Database) {
            let unused = SETTINGS
                .iter()
                .filter(|it| takes(commands::SERVERS & !USES, it.group));
            command.args(unused.filter_map(|it| it.unused_arg()))
        } else {
            command
        };
        let command = if takes(USES, Group::File) {
            command.args(former::args())
        } else {
            command
        };
        if takes(USES, Group::Tasks) {
            command.args(for_tests::args())
        } else {
            command
        }
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const USES: u32> FromArgMatches for SettingsFor<USES> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self(SettingsArgs {
            values: SettingValues::given(matches, USES),
            uses: USES,
            for_tests: if takes(USES, Group::Tasks) {
                ForTests::given(matches)
            } else {
                ForTests::default()
            },
        }))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
