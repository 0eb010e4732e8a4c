//! What a declaration of a setting says, and the macro that makes its struct field, flag, variable,
//! file key, default and help from it. Must not know a single setting.

use super::groups::Group;
use clap::{Arg, ArgAction};

/// What is special about a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// Neither a flag nor a variable.
    OnlyInFile,
    /// No key of the file.
    NotInFile,
    /// A flag without a value.
    Bare,
    /// A flag whose value may be left out, which means `true`.
    Switch,
    /// May hold a password, so the help leaves out the variable's value.
    Url,
    /// Left out of the short help.
    Rare,
}

/// The declaration of a setting.
#[derive(Debug)]
pub struct Setting {
    /// Its name: the key in the file. Flag and variable follow from it.
    pub key: &'static str,
    /// What it belongs to.
    pub group: Group,
    /// What it does, as an imperative.
    pub help: &'static str,
    pub(super) marks: &'static [Mark],
    pub(super) value_name: &'static str,
    pub(super) parser: fn(Arg) -> Arg,
    pub(super) words: &'static [&'static str],
    pub(super) value: fn() -> Option<String>,
}

impl Setting {
    fn is(&self, mark: Mark) -> bool {
        self.marks.contains(&mark)
    }

    /// The long flag, without its dashes.
    #[must_use]
    pub fn flag(&self) -> Option<String> {
        (!self.is(Mark::OnlyInFile)).then(|| self.key.replace('_', "-"))
    }

    /// The variable.
    #[must_use]
    pub fn variable(&self) -> Option<String> {
        let is_none = self.is(Mark::OnlyInFile);
        (!is_none).then(|| format!("COUNTERSTEP_{}", self.key.to_ascii_uppercase()))
    }

    /// The key in the file.
    #[must_use]
    pub fn file_key(&self) -> Option<&'static str> {
        let is_none = self.is(Mark::NotInFile);
        (!is_none).then_some(self.key)
    }

    /// What counts where it is not set, as a value or as text.
    #[must_use]
    pub fn default(&self) -> Option<String> {
        let words = self.words.first().map(|words| (*words).to_owned());
        words.or_else(self.value)
    }

    /// The flag with its variable, as the parser takes it.
    pub(super) fn arg(&self) -> Option<Arg> {
        let help = match self.default() {
            Some(default) => format!("{} [default: {default}]", self.help),
            None => self.help.to_owned(),
        };
        let arg = Arg::new(self.key)
            .long(self.flag()?)
            .help(help)
            .help_heading(self.group.heading())
            .hide_short_help(self.is(Mark::Rare))
            .hide_env_values(self.is(Mark::Url))
            .global(true);
        let arg = match self.variable() {
            Some(variable) => arg.env(variable),
            None => arg,
        };
        if self.is(Mark::Bare) {
            return Some(arg.action(ArgAction::SetTrue));
        }
        let name = if self.is(Mark::Url) {
            "URL"
        } else {
            self.value_name
        };
        let arg = (self.parser)(arg.value_name(name));
        Some(if self.is(Mark::Switch) {
            arg.num_args(0..=1).default_missing_value("true")
        } else {
            arg
        })
    }

    /// Its flag for a command that has no use for it: any value is accepted, and nothing reads it.
    pub(super) fn unused_arg(&self) -> Option<Arg> {
        let arg = Arg::new(self.key)
            .long(self.flag()?)
            .hide(true)
            .global(true);
        Some(if self.is(Mark::Bare) {
            arg.action(ArgAction::SetTrue)
        } else if self.is(Mark::Switch) {
            arg.action(ArgAction::Append).num_args(0..=1)
        } else {
            arg.action(ArgAction::Append)
        })
    }
}

/// Declares all settings, one a line:
/// `key(Mark, …): Kind = default => "Help";`, where a default that no constant can say stands in
/// words, as `["words"]` before the help, and a setting without one has neither.
macro_rules! declare {
    ($( $group:ident { $(
        $key:ident $(($($mark:ident),+))? : $kind:ty $([$words:literal])? $(= $default:expr)? => $help:literal;
    )+ } )+) => {
        /// All settings.
        pub static SETTINGS: &[Setting] = &[$($(Setting {
            key: stringify!($key),
            group: Group::$group,
            help: $help,
            marks: &[$($(Mark::$mark),+)?],
            value_name: <$kind as Kind>::NAME,
            parser: <$kind as Kind>::arg,
            words: &[$($words)?],
            value: || declare!(@shown $kind $(, $default)?),
        }),+),+];

        /// What one place gives: flags and variables, or the settings file.
        #[derive(Debug, Clone, Default)]
        pub struct SettingValues { $($(
            #[doc = $help]
            pub $key: Option<<$kind as Kind>::Raw>,
        )+)+ }

        impl SettingValues {
            /// Of the flags and variables of a command that takes these settings.
            pub(super) fn given(matches: &ArgMatches, uses: u32) -> Self {
                Self { $($(
                    $key: has_flag(uses, stringify!($key))
                        .then(|| <$kind as Kind>::given(matches, stringify!($key)))
                        .flatten(),
                )+)+ }
            }

            /// Without the settings that a command does not take.
            pub(super) fn only(self, uses: u32) -> Self {
                Self { $($( $key: self.$key.filter(|_| takes(uses, Group::$group)), )+)+ }
            }

            /// Reads the value of a key of the file.
            pub(super) fn read<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
                match key {
                    $($( stringify!($key) => self.$key = Some(map.next_value()?), )+)+
                    _ => {}
                }
                Ok(())
            }
        }

        /// Each setting as it counts: the value of a flag or a variable, that of the file, the
        /// default.
        impl Layers { $($(
            #[doc = $help]
            ///
            /// # Errors
            /// [`Exit`] with the kind `Config`, naming the setting.
            pub fn $key(&self) -> Result<declare!(@value $kind $(, $default)?), Exit> {
                let raw = self.first.$key.clone().or_else(|| self.file.$key.clone());
                let value = raw.map(|raw| <$kind as Kind>::check(stringify!($key), raw)).transpose()?;
                Ok(declare!(@or value $(, $default)?))
            }
        )+)+ }
    };
    (@shown $kind:ty) => { None };
    (@shown $kind:ty, $default:expr) => { Some(<$kind as Kind>::shown(&$default)) };
    (@value $kind:ty) => { Option<<$kind as Kind>::Value> };
    (@value $kind:ty, $default:expr) => { <$kind as Kind>::Value };
    (@or $value:ident) => { $value };
    (@or $value:ident, $default:expr) => { $value.unwrap_or_else(|| $default) };
}

pub(super) use declare;
