//! Where secrets are: each in a file of one folder, under its name, or in one that the settings file names. Must not read a secret.

use super::kinds::Kind;
use super::layers::Layers;
use crate::exit::Exit;
use serde::Deserialize;
use std::path::PathBuf;

/// A secret by its name, as a file of the folder and as a key of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Secret {
    Database,
    Nats,
    Redis,
    Objects,
    Collector,
    Links,
    Webhooks,
    Seal,
}

/// The files of single secrets, in the settings file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecretFiles {
    database: Option<PathBuf>,
    nats: Option<PathBuf>,
    redis: Option<PathBuf>,
    objects: Option<PathBuf>,
    collector: Option<PathBuf>,
    links: Option<PathBuf>,
    webhooks: Option<PathBuf>,
    seal: Option<PathBuf>,
}

impl Secret {
    fn of(self, files: SecretFiles) -> (&'static str, Option<PathBuf>) {
        match self {
            Self::Database => ("database", files.database),
            Self::Nats => ("nats", files.nats),
            Self::Redis => ("redis", files.redis),
            Self::Objects => ("objects", files.objects),
            Self::Collector => ("collector", files.collector),
            Self::Links => ("links", files.links),
            Self::Webhooks => ("webhooks", files.webhooks),
            Self::Seal => ("seal", files.seal),
        }
    }
}

impl Layers {
    /// The file with a secret, if there is one. What the table names has to be there where it is read; in the folder a file that
    /// is missing is a secret that the process does not have.
    pub(super) fn secret_file(&self, secret: Secret) -> Result<Option<PathBuf>, Exit> {
        let (name, named) = secret.of(self.secret_files()?.unwrap_or_default());
        let (None, Some(folder)) = (&named, self.secrets_dir()?) else {
            return Ok(named);
        };
        let refused = |why: String| {
            Exit::config(format_args!(
                "setting `secrets_dir`: the folder `{}` {why}",
                folder.display()
            ))
        };
        if !folder.is_dir() {
            return Err(refused("is not there".to_owned()));
        }
        let file = folder.join(name);
        let is_there = file
            .try_exists()
            .map_err(|error| refused(format!("cannot be read: {error}")))?;
        Ok(is_there.then_some(file))
    }
}

impl Kind for SecretFiles {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::SettingValues;
    use std::path::Path;

    fn layers(text: &str, folder: Option<&Path>) -> Layers {
        Layers {
            first: SettingValues {
                secrets_dir: folder.map(Path::to_owned),
                ..SettingValues::default()
            },
            file: toml::from_str(text).expect(text),
            ..Layers::default()
        }
    }

    #[test]
    fn a_secret_is_in_the_folder_under_its_name_or_in_a_file_that_the_settings_file_names() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("nats"), "x").unwrap();
        let given = layers("secret_files.redis = \"r\"", Some(folder.path()));
        let file = |secret| given.secret_file(secret).unwrap();
        assert_eq!(file(Secret::Nats), Some(folder.path().join("nats")));
        assert_eq!(file(Secret::Redis), Some("r".into()));
        assert_eq!(file(Secret::Seal), None);
        std::fs::write(folder.path().join("redis"), "x").unwrap();
        assert_eq!(file(Secret::Redis), Some("r".into()), "the table is first");
        assert_eq!(
            layers("", None).secret_file(Secret::Nats).unwrap(),
            None,
            "nothing is set"
        );
    }

    #[test]
    fn a_folder_that_is_not_there_and_a_secret_that_no_process_has_are_refused() {
        let missing = layers("", Some(Path::new("not/there")));
        let refused = missing.secret_file(Secret::Nats).unwrap_err();
        assert!(
            refused.message.contains("`not/there` is not there"),
            "{refused}"
        );
        let error = toml::from_str::<SettingValues>("secret_files.mail = \"x\"").unwrap_err();
        assert!(
            error.message().contains("expected one of `database`"),
            "{error}"
        );
    }
}
