//! Which settings each command takes, and their flags. Must not read the file.

use super::table::{Group, SETTINGS, SettingValues};
use super::{SettingsArgs, faults};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use std::ops::Deref;

/// The groups as one number, which a type can have as a parameter.
#[must_use]
pub const fn uses(groups: &[Group]) -> u32 {
    let (mut bits, mut at) = (0, 0);
    while at < groups.len() {
        bits |= 1 << groups[at] as u32;
        at += 1;
    }
    bits
}

/// Whether a group is among those of a command.
#[must_use]
pub const fn takes(uses: u32, group: Group) -> bool {
    uses & (1 << group as u32) != 0
}

/// Whether a command has a flag for a setting.
pub(super) fn has_flag(uses: u32, key: &str) -> bool {
    let mut taken = SETTINGS.iter().filter(|it| takes(uses, it.group));
    taken.any(|it| it.key == key && it.flag().is_some())
}

const FILE: u32 = uses(&[Group::File]);
const DATABASE: u32 = FILE | uses(&[Group::Process, Group::Database]);
const SERVERS: u32 = DATABASE
    | uses(&[
        Group::Nats,
        Group::Redis,
        Group::Objects,
        Group::Lease,
        Group::Services,
    ]);
const SERVICE: u32 = SERVERS | uses(&[Group::Tasks, Group::Policies, Group::Upkeep]);

/// What `api` takes.
pub const API: u32 = SERVICE | uses(&[Group::Steps, Group::Api]);
/// What `worker` takes.
pub const WORKER: u32 = SERVICE | uses(&[Group::Steps, Group::Worker]);
/// What `reconciler` takes.
pub const RECONCILER: u32 = SERVICE | uses(&[Group::Reconciler]);
/// What `dev` takes: what its roles do.
pub const DEV: u32 = API | WORKER | RECONCILER;
/// What `doctor` takes. The lease decides when messages are delivered again.
pub const DOCTOR: u32 = SERVERS;
/// What `fsck` takes.
pub const FSCK: u32 = DATABASE | uses(&[Group::Objects]);
/// What commands take that open the database alone.
pub const DATABASE_ONLY: u32 = DATABASE;
/// What `describe` takes.
pub const DESCRIBE: u32 = FILE | uses(&[Group::Policies]);
/// What commands take that talk to the API. No file: an operator may not be able to read that of the
/// services.
pub const REMOTE: u32 = uses(&[Group::Remote]);

/// The commands that take settings, in the order of the help.
pub const COMMANDS: &[(&str, u32)] = &[
    ("dev", DEV),
    ("api", API),
    ("worker", WORKER),
    ("reconciler", RECONCILER),
    ("migrate", DATABASE_ONLY),
    ("doctor", DOCTOR),
    ("check-deploy", DATABASE_ONLY),
    ("audit", DATABASE_ONLY),
    ("fsck", FSCK),
    ("describe", DESCRIBE),
    ("tasks", REMOTE),
    ("types", REMOTE),
    ("schedules", REMOTE),
    ("workers", REMOTE),
];

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
        if takes(USES, Group::Tasks) {
            command.arg(faults::arg())
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
            faults: if takes(USES, Group::Tasks) {
                faults::given(matches)
            } else {
                Vec::new()
            },
        }))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
