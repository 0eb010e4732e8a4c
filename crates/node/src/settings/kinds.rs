//! The kinds of values that settings have: how a flag and the file give one, how it is checked, and
//! how a default is shown. Must not know a single setting.

use super::auth_mode::AuthMode;
use super::log_format::LogFormat;
use crate::exit::Exit;
use clap::builder::RangedU64ValueParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use counterstep_contracts::retry::{format_duration, parse_duration};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A kind of values.
pub trait Kind {
    /// The value as a flag, a variable or the file has it.
    type Raw: Clone + Send + Sync + 'static;
    /// The value as the process uses it.
    type Value;
    /// What stands for a value in the help.
    const NAME: &'static str;

    /// The flag, with the parser for its values.
    fn arg(arg: Arg) -> Arg {
        arg
    }

    /// The value that a flag or a variable gives.
    fn given(matches: &ArgMatches, key: &str) -> Option<Self::Raw> {
        let is_given = is_given(matches, key);
        is_given.then(|| matches.get_one(key).cloned()).flatten()
    }

    /// The value as it is used, or why it cannot be.
    fn check(key: &str, raw: Self::Raw) -> Result<Self::Value, Exit>;

    /// The value as a person would write it.
    fn shown(value: &Self::Value) -> String;
}

fn is_given(matches: &ArgMatches, key: &str) -> bool {
    let source = matches.value_source(key);
    source.is_some_and(|source| source != ValueSource::DefaultValue)
}

/// Kinds whose values are used as they are given.
macro_rules! plain {
    ($($kind:ty, $name:literal, $parser:expr, |$value:ident| $shown:expr;)+) => { $(
        impl Kind for $kind {
            type Raw = Self;
            type Value = Self;
            const NAME: &'static str = $name;

            fn arg(arg: Arg) -> Arg {
                arg.value_parser($parser)
            }

            fn check(_: &str, raw: Self) -> Result<Self, Exit> {
                Ok(raw)
            }

            fn shown($value: &Self) -> String {
                $shown
            }
        }
    )+ };
}

plain! {
    String, "TEXT", value_parser!(String), |value| value.clone();
    PathBuf, "PATH", value_parser!(PathBuf), |value| value.display().to_string();
    bool, "BOOL", value_parser!(bool), |value| value.to_string();
    SocketAddr, "ADDRESS", address, |value| value.to_string();
    AuthMode, "MODE", value_parser!(AuthMode), |value| format!("{value:?}").to_lowercase();
    LogFormat, "FORMAT", value_parser!(LogFormat), |value| format!("{value:?}").to_lowercase();
}

/// What is expected of an address, in place of the parser's words.
pub(super) const ADDRESS: &str =
    "expected ADDRESS:PORT, as 127.0.0.1:8080 or [::1]:8080; names are not taken";

fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| ADDRESS)
}

impl Kind for Duration {
    type Raw = String;
    type Value = Self;
    const NAME: &'static str = "TIME";

    fn check(key: &str, raw: String) -> Result<Self, Exit> {
        duration(key, &raw)
    }

    fn shown(value: &Self) -> String {
        format_duration(*value)
    }
}

/// Reads a duration setting such as `30s`.
///
/// # Errors
/// [`Exit`] with the kind `Config`.
pub fn duration(name: &str, text: &str) -> Result<Duration, Exit> {
    parse_duration(text).filter(|duration| !duration.is_zero()).ok_or_else(|| {
        Exit::config(format_args!(
            "setting `{name}`: `{}` is no duration above 0: write a whole number and a unit, as 500ms, 30s, 10m, 1h",
            text.escape_debug()
        ))
    })
}

/// A whole number from `MIN` to `MAX`.
pub struct Number<const MIN: usize, const MAX: usize>;

impl<const MIN: usize, const MAX: usize> Kind for Number<MIN, MAX> {
    type Raw = usize;
    type Value = usize;
    const NAME: &'static str = "NUMBER";

    fn arg(arg: Arg) -> Arg {
        arg.value_parser(value_parser!(usize))
    }

    fn check(key: &str, raw: usize) -> Result<usize, Exit> {
        let most = match MAX {
            usize::MAX => "or more".to_owned(),
            most => format!("to {most}"),
        };
        if (MIN..=MAX).contains(&raw) {
            return Ok(raw);
        }
        Err(Exit::config(format_args!(
            "invalid setting `{key}`: {raw}; expected {MIN} {most}"
        )))
    }

    fn shown(value: &usize) -> String {
        value.to_string()
    }
}

/// How many run side by side, 1 to 4096. A flag beyond that is the parser's business.
pub struct Slots;

impl Kind for Slots {
    type Raw = usize;
    type Value = usize;
    const NAME: &'static str = "NUMBER";

    fn arg(arg: Arg) -> Arg {
        arg.value_parser(RangedU64ValueParser::<usize>::new().range(1..=4096))
    }

    fn check(key: &str, raw: usize) -> Result<usize, Exit> {
        Number::<1, 4096>::check(key, raw)
    }

    fn shown(value: &usize) -> String {
        value.to_string()
    }
}

/// A prefix that is a name in NATS and Redis alike.
pub struct Prefix;

impl Kind for Prefix {
    type Raw = String;
    type Value = String;
    const NAME: &'static str = "NAME";

    fn check(key: &str, raw: String) -> Result<String, Exit> {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if (1..=64).contains(&raw.len()) && raw.bytes().all(is_part) {
            return Ok(raw);
        }
        Err(Exit::config(format_args!(
            "invalid setting `{key}`: `{}`; expected 1 to 64 letters, digits, `_` and `-`",
            raw.escape_debug()
        )))
    }

    fn shown(value: &String) -> String {
        value.clone()
    }
}

/// Separated by commas in a flag or a variable, a list in the file.
impl Kind for Vec<String> {
    type Raw = Self;
    type Value = Self;
    const NAME: &'static str = "LIST";

    fn arg(arg: Arg) -> Arg {
        arg.value_delimiter(',').action(ArgAction::Append)
    }

    fn given(matches: &ArgMatches, key: &str) -> Option<Self> {
        let values = matches.get_many(key)?;
        is_given(matches, key).then(|| values.cloned().collect())
    }

    fn check(_: &str, raw: Self) -> Result<Self, Exit> {
        Ok(raw)
    }

    fn shown(value: &Self) -> String {
        value.join(",")
    }
}

/// A table, which only the file can hold.
impl<K, T> Kind for BTreeMap<K, T>
where
    K: Clone + Send + Sync + 'static,
    T: Clone + Send + Sync + 'static,
{
    type Raw = Self;
    type Value = Self;
    const NAME: &'static str = "TABLE";

    fn check(_: &str, raw: Self) -> Result<Self, Exit> {
        Ok(raw)
    }

    fn shown(_: &Self) -> String {
        String::new()
    }
}
