//! URLs of servers: which layer has one, in itself or in a file, and what stands in it. Must not
//! connect to anything.

use super::layers::Layers;
use super::logins::has_password;
use super::table::SettingValues;
use crate::exit::Exit;
use std::path::PathBuf;

/// A URL, and whether a flag or a variable had it.
pub(super) struct Url {
    pub(super) text: String,
    is_first: bool,
    /// Which file held it.
    file: Option<PathBuf>,
}

impl Url {
    /// Of the first layer that has one, in itself or in a file.
    pub(super) fn of(
        name: &str,
        given: &Layers,
        of: impl Fn(&SettingValues) -> (&Option<String>, &Option<PathBuf>),
    ) -> Result<Option<Self>, Exit> {
        for (layer, is_first) in [(&given.first, true), (&given.file, false)] {
            match of(layer) {
                (None, None) => {}
                (Some(text), None) => {
                    return Ok(Some(Self {
                        text: text.clone(),
                        is_first,
                        file: None,
                    }));
                }
                (None, Some(path)) => {
                    let text = std::fs::read_to_string(path).map_err(|error| {
                        Exit::config(format_args!(
                            "setting `{name}_file`: the file `{}` cannot be read: {error}",
                            path.display()
                        ))
                    })?;
                    return Ok(Some(Self {
                        text: text.trim().to_owned(),
                        is_first,
                        file: Some(path.clone()),
                    }));
                }
                (Some(_), Some(_)) => {
                    return Err(Exit::config(format_args!(
                        "settings `{name}` and `{name}_file`: both are there; expected one of them"
                    )));
                }
            }
        }
        Ok(None)
    }

    /// The file with the password. One of the settings file is for the user there: a flag or a
    /// variable that brings a URL with its own password means another user, as a migration does
    /// that runs as the owner of the tables.
    pub(super) fn password_file(
        &self,
        given: &Layers,
        of: impl Fn(&SettingValues) -> &Option<PathBuf>,
    ) -> Option<PathBuf> {
        let has_its_own = self.is_first && has_password(&self.text);
        let of_file = || of(&given.file).clone().filter(|_| !has_its_own);
        of(&given.first).clone().or_else(of_file)
    }

    /// The file that held it, where a password is in it.
    pub(super) fn secret_file(&self) -> Option<PathBuf> {
        self.file.clone().filter(|_| has_password(&self.text))
    }
}

pub(super) fn each(urls: &str, check: impl Fn(&str) -> Result<(), Exit>) -> Result<(), Exit> {
    urls.split(',').try_for_each(check)
}

/// The URL's scheme, one of those that are known. The value is not repeated: it may hold a
/// password.
pub(super) fn scheme<'a>(name: &str, url: &'a str, known: &[&str]) -> Result<&'a str, Exit> {
    match url.split_once("://") {
        Some((scheme, rest))
            if known.contains(&scheme) && (matches!(scheme, "s3" | "az") || !rest.is_empty()) =>
        {
            Ok(scheme)
        }
        _ => {
            let known: Vec<_> = known.iter().map(|scheme| format!("{scheme}://…")).collect();
            Err(Exit::config(format_args!(
                "setting `{name}`: expected {}; no other scheme is known",
                known.join(" or ")
            )))
        }
    }
}

pub(super) fn path(name: &str, url: &str) -> Result<PathBuf, Exit> {
    match url.split_once("://") {
        Some((_, path)) if !path.is_empty() => Ok(PathBuf::from(path)),
        _ => Err(Exit::config(format_args!(
            "setting `{name}`: expected a path behind the scheme"
        ))),
    }
}
