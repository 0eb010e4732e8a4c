//! The settings file. Processes share it, so it may hold the settings of all of them. Must not check
//! a value against another one, or against what a flag says.

use super::former;
use super::logins::has_password;
use super::table::{SETTINGS, SettingValues};
use super::unusable::unusable;
use crate::exit::Exit;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use std::fmt;
use std::path::Path;

impl<'de> Deserialize<'de> for SettingValues {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Keys)
    }
}

struct Keys;

impl<'de> Visitor<'de> for Keys {
    type Value = SettingValues;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("settings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<SettingValues, A::Error> {
        let mut values = SettingValues::default();
        while let Some(Key(key)) = map.next_key()? {
            values.read(key, &mut map)?;
        }
        Ok(values)
    }
}

/// A key that a file may have. An unknown one is refused while it is read, so that the error has its
/// place.
struct Key(&'static str);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let keys = || SETTINGS.iter().filter_map(|setting| setting.file_key());
        keys().find(|key| *key == name).map(Self).ok_or_else(|| {
            if let Some(former) = former::find(&name) {
                return D::Error::custom(former.in_file());
            }
            if let Some(near) = nearest(&name, keys()) {
                return D::Error::custom(format_args!(
                    "unknown field `{name}`: did you mean `{near}`?"
                ));
            }
            let known: Vec<_> = keys().map(|key| format!("`{key}`")).collect();
            D::Error::custom(format_args!(
                "unknown field `{name}`, expected one of {}",
                known.join(", ")
            ))
        })
    }
}

/// The known name that a misspelt one is most like, if any is like it: by the measure and the bound of `clap`.
pub fn nearest<T: AsRef<str>>(name: &str, known: impl Iterator<Item = T>) -> Option<T> {
    let like = known.map(|known| (strsim::jaro(name, known.as_ref()), known));
    let like = like.filter(|(like, _)| *like > 0.7);
    like.max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, known)| known)
}

pub(super) fn read_text(path: &Path) -> Result<String, Exit> {
    std::fs::read_to_string(path).map_err(|error| {
        Exit::config(format_args!(
            "the settings file `{}` cannot be read: {error}",
            path.display()
        ))
    })
}

pub(super) fn read_file(path: &Path) -> Result<SettingValues, Exit> {
    let text = read_text(path)?;
    toml::from_str(&text).map_err(|error| unusable(path, &text, &error))
}

/// Whether any URL of a settings file holds a password, which makes the file itself a secret.
pub(super) fn holds_password(file: &SettingValues) -> bool {
    [&file.database, &file.redis, &file.nats]
        .into_iter()
        .flatten()
        .any(|url| has_password(url))
}

#[cfg(test)]
mod tests {
    use super::*;
    use counterstep_contracts::CooldownOverride;
    use std::time::Duration;

    #[test]
    fn unknown_keys_of_the_file_are_errors() {
        assert!(toml::from_str::<SettingValues>("lease = \"3s\"").is_ok());
        let error = toml::from_str::<SettingValues>("leese = \"3s\"")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("unknown field `leese`: did you mean `lease`?"),
            "{error}"
        );
        let error = toml::from_str::<SettingValues>("zzz = 1").unwrap_err();
        assert!(error.message().contains("expected one of `"), "{error}");
        for other in ["accept", "token_file", "config", "url"] {
            let error = toml::from_str::<SettingValues>(&format!("{other} = \"1s\"")).unwrap_err();
            assert!(error.message().contains("unknown field"), "{error}");
        }
    }

    #[test]
    fn policies_are_read_by_name_and_what_is_impossible_or_unknown_in_them_is_an_error() {
        let file = "[policies.ZIP_RETRY]\nmax_retries = 5\nbackoff = \"linear\"\nbase = \"1s\"\ncap = \"1m\"\n\
                    jitter = false\nattempt_timeout = \"2m\"\n[breakers.payments]\nopen_for = \"1m\"\n\
                    [auto_disable.Zip]\ncooldown = \"9m\"\n[auto_disable.Mail]\ncooldown = \"until_enabled\"\n";
        let read = toml::from_str::<SettingValues>(file).unwrap();
        assert_eq!(
            read.policies.as_ref().unwrap()["ZIP_RETRY"].max_retries,
            Some(5)
        );
        assert_eq!(
            read.breakers.as_ref().unwrap()["payments"].open_for,
            Some(Duration::from_secs(60))
        );
        let cooldown = |type_name: &str| read.auto_disable.as_ref().unwrap()[type_name].cooldown;
        assert_eq!(
            cooldown("Zip"),
            Some(CooldownOverride::For(Duration::from_secs(540)))
        );
        assert_eq!(cooldown("Mail"), Some(CooldownOverride::UntilEnabled));
        for (wrong, said) in [
            ("[policies.X]\nretries = 5", "max_retries"),
            ("[policies.X]\nbackoff = \"cubic\"", "exponential"),
            ("[policies.X]\nbase = \"soon\"", "no duration above 0"),
            ("[breakers.x]\nopen_for = \"0s\"", "no duration above 0"),
            (
                "[auto_disable.X]\ncooldown = \"never\"",
                "or `until_enabled`",
            ),
            (
                "[services.bank]\nuri = \"http://localhost\"",
                "expected one of `url`",
            ),
            ("[services.bank]\n", "missing field `url`"),
            ("[orphans.Zip]\nevery = \"often\"", "no duration above 0"),
            ("[retention.Zip]\ncompleted = \"burn\"", "expected \"keep\""),
        ] {
            let error = toml::from_str::<SettingValues>(wrong)
                .unwrap_err()
                .to_string();
            assert!(error.contains(said), "{wrong}: {error}");
        }
    }
}
