//! URLs of servers: where one stands, in the settings or in a secret, and what stands in it. Must not connect to anything.

use super::layers::Layers;
use super::logins::has_password;
use super::secrets::Secret;
use crate::exit::Exit;
use std::path::{Path, PathBuf};

/// A URL, and the files that belong to it.
#[derive(Debug)]
pub(super) struct Url {
    pub(super) text: String,
    /// The file it was read from, if the URL contains a password.
    pub(super) file: Option<PathBuf>,
    /// With the password of its user.
    pub(super) password_file: Option<PathBuf>,
}

/// Where a URL may be set.
pub(super) struct UrlPlaces {
    /// The name of the setting and of the secret.
    pub(super) name: &'static str,
    pub(super) secret: Secret,
    /// The URL of a flag or a variable.
    pub(super) first: Option<String>,
    /// The URL of the settings file.
    pub(super) file: Option<String>,
}

impl Url {
    /// The URL of a flag or a variable, of the settings file, or the secret itself; a secret that is no URL is a password.
    pub(super) fn of(given: &Layers, places: UrlPlaces) -> Result<Option<Self>, Exit> {
        let UrlPlaces {
            name,
            secret,
            first,
            file,
        } = places;
        let (url, is_first) = match (first, file) {
            (Some(first), _) => (Some(first), true),
            (None, file) => (file, false),
        };
        let alone = |text| Self {
            text,
            file: None,
            password_file: None,
        };
        // It means another user than that of the secret, as a migration does that runs as the owner of the tables.
        if let Some(url) = url.as_ref().filter(|url| is_first && has_password(url)) {
            return Ok(Some(alone(url.clone())));
        }
        let path = given.secret_file(secret)?;
        let held = path.as_deref().map(|path| read(name, path)).transpose()?;
        match (url, held.filter(|held| is_url(held))) {
            (None, None) => Ok(None),
            (None, Some(held)) => Ok(Some(Self {
                file: path.filter(|_| has_password(&held)),
                ..alone(held)
            })),
            (Some(url), None) => Ok(Some(Self {
                password_file: path,
                ..alone(url)
            })),
            // The secret is for another server.
            (Some(url), Some(_)) if is_first => Ok(Some(alone(url))),
            (Some(_), Some(_)) => Err(Exit::config(format_args!(
                "setting `{name}`: the secret `{name}` holds a URL, too; expected one of them"
            ))),
        }
    }
}

fn read(name: &str, path: &Path) -> Result<String, Exit> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Exit::config(format_args!(
            "secret `{name}`: the file `{}` cannot be read: {error}",
            path.display()
        ))
    })?;
    Ok(text.trim().to_owned())
}

/// Whether a secret is a whole URL, of whatever scheme.
fn is_url(text: &str) -> bool {
    let is_scheme = |scheme: &str| {
        !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    text.split_once("://")
        .is_some_and(|(scheme, _)| is_scheme(scheme))
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
