//! Profiles of servers: what `--profile` stands for, in a file of the person who types it. Each has an address, and where its key is;
//! never the key itself.

use super::table::SettingValues;
use super::upgrade::replace;
use crate::exit::Exit;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Address of its API.
    pub url: String,
    /// The file with the API key or the access token that is sent along.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
}

/// All profiles, by name.
pub type Profiles = BTreeMap<String, Profile>;

/// Where the profiles are: `counterstep/profiles.toml` in the folder for settings of this user.
///
/// # Errors
/// [`Exit`] where the user has no such folder.
pub fn profiles_file() -> Result<PathBuf, Exit> {
    let of = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let folder = of("XDG_CONFIG_HOME")
        .filter(|folder| folder.is_absolute())
        .or_else(|| Some(of("HOME")?.join(".config")));
    let folder = folder.ok_or_else(|| {
        Exit::config("profiles have no place: neither XDG_CONFIG_HOME nor HOME is set")
    })?;
    Ok(folder.join("counterstep").join("profiles.toml"))
}

/// Those of a file; none where it is not there.
///
/// # Errors
/// [`Exit`] where it cannot be read.
pub fn read_profiles(file: &Path) -> Result<Profiles, Exit> {
    let unusable = |why: String| {
        Exit::config(format_args!(
            "the profiles in `{}` cannot be read: {why}",
            file.display()
        ))
    };
    match std::fs::read_to_string(file) {
        Ok(text) => toml::from_str(&text).map_err(|error| unusable(error.message().to_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Profiles::new()),
        Err(error) => Err(unusable(error.to_string())),
    }
}

/// Writes them, all or none. Of two who write at once the later one wins.
///
/// # Errors
/// [`Exit`] where the file cannot be written.
pub fn write_profiles(file: &Path, profiles: &Profiles) -> Result<(), Exit> {
    // A text of JSON is one of TOML, too.
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let mut text = String::new();
    for (name, profile) in profiles {
        text += &format!("[{}]\nurl = {}\n", quoted(name), quoted(&profile.url));
        if let Some(token) = &profile.token_file {
            text += &format!("token_file = {}\n", quoted(&token.to_string_lossy()));
        }
    }
    let folder = file.parent().map_or(Ok(()), std::fs::create_dir_all);
    let written = folder.and_then(|()| replace(file, &text));
    written.map_err(|error| {
        let why = format!("`{}` cannot be written: {error}", file.display());
        Exit::of_disk(why, &error)
    })
}

/// What a profile gives, below flags and variables.
pub(super) fn values_of(name: &str) -> Result<SettingValues, Exit> {
    let file = profiles_file()?;
    let mut all = read_profiles(&file)?;
    let Some(profile) = all.remove(name) else {
        let known: Vec<_> = all.into_keys().collect();
        return Err(Exit::config(format_args!(
            "setting `profile`: there is no profile `{}` in `{}`; it has {}",
            name.escape_debug(),
            file.display(),
            match known.is_empty() {
                true => "none: make one with `profile add NAME --url URL`".to_owned(),
                false => known.join(", "),
            }
        )));
    };
    Ok(SettingValues {
        url: Some(profile.url),
        token_file: profile.token_file,
        ..SettingValues::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_read_as_they_were_written_and_unknown_fields_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("counterstep/profiles.toml");
        assert_eq!(read_profiles(&file).unwrap(), Profiles::new());
        let profile = |url: &str, token_file: Option<&str>| Profile {
            url: url.to_owned(),
            token_file: token_file.map(PathBuf::from),
        };
        let all = Profiles::from([
            ("here".to_owned(), profile("http://127.0.0.1:8080", None)),
            (
                "prod".to_owned(),
                profile("https://api", Some("/etc/kim.key")),
            ),
        ]);
        write_profiles(&file, &all).unwrap();
        assert_eq!(read_profiles(&file).unwrap(), all);
        std::fs::write(
            &file,
            "[prod]\nurl = \"https://api\"\ntoken = \"hunter2\"\n",
        )
        .unwrap();
        let refused = read_profiles(&file).unwrap_err();
        assert!(
            refused.message.contains("unknown field `token`")
                && !refused.message.contains("hunter2"),
            "{refused}"
        );
    }
}
