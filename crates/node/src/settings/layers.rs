//! What a process is given, in the order in which it counts: flags and variables above the settings
//! file. The accessor of each setting stands with the declarations. Must not read or check anything.

use super::for_tests::ForTests;
use super::table::SettingValues;
use std::path::PathBuf;

/// What flags and variables give, and below it what the settings file gives: of the settings that
/// the command takes.
#[derive(Debug, Clone, Default)]
pub struct Layers {
    pub(super) first: SettingValues,
    pub(super) file: SettingValues,
    pub(super) uses: u32,
    pub(super) for_tests: ForTests,
    /// The settings file, where a URL in it holds a password.
    pub(super) secret_config: Option<PathBuf>,
}
