//! URLs of servers: which layer has one, in itself or in a file, and what stands in it. Must not
//! connect to anything.

use super::layers::Layers;
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

/// Whether a URL, or one of several with commas between them, holds a password.
pub(super) fn has_password(url: &str) -> bool {
    let in_login = |one: &str| login_of(one).0.is_some_and(|login| login.contains(':'));
    // A password may hold a comma: so both as one URL, and each for itself.
    in_login(url)
        || url.split(',').any(in_login)
        || url
            .split(['?', '&'])
            .any(|parameter| parameter.starts_with("password="))
}

/// User and password of a URL, where it has them, and what is behind them. A password may hold an unescaped `/`, `?` or
/// `,`, as `openssl rand -base64` makes them and as drivers take them: so the login ends at the last `@`.
pub(super) fn login_of(url: &str) -> (Option<&str>, &str) {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    match rest.rsplit_once('@') {
        Some((login, behind)) => (Some(login), behind),
        None => (None, rest),
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

#[cfg(test)]
mod tests {
    use super::has_password;
    use crate::settings::SecretUrl;

    #[test]
    fn a_password_is_found_whatever_it_is_made_of_and_nothing_of_it_is_shown() {
        for url in [
            "postgres://me:hunter2@db/y",
            "postgres://me:hunter2/x@db/y",
            "postgres://me:x/hunter2@db/y?sslmode=require",
            "postgres://me:hunter2?x@db/y",
            "postgres://me:x,hunter2@db/y",
            "postgres://me:hunter2@x@db/y",
            "nats://a:4222,nats://me:hunter2@db",
        ] {
            assert!(has_password(url), "{url}");
            let shown = SecretUrl::new(url.to_owned()).to_string();
            let (scheme, _) = url.split_once("://").expect("a scheme");
            assert_eq!(shown, format!("{scheme}://db"), "{url}");
        }
        for url in [
            "postgres://me@db:5432/y",
            "postgres://db:5432/y?sslmode=require",
            "nats://a:4222,nats://b:4222",
        ] {
            assert!(!has_password(url), "{url}");
        }
        assert!(has_password("postgres://me@db/y?password=hunter2"));
    }
}
