//! Where secrets are: each in a file of one folder, under its name, or in one that the settings file names. Must not read a secret.

use crate::exit::Exit;
use crate::settings::groups::takes;
use crate::settings::layers::Layers;
use crate::settings::secrets::Secret;
use std::path::PathBuf;

impl Layers {
    /// The file with a secret, if there is one. What the table names has to be there where it is read; in the folder a file that
    /// is missing is a secret that the process does not have. None is looked for that the command has no use for: it may run as a
    /// user who cannot read those of the services.
    pub(crate) fn secret_file(&self, secret: Secret) -> Result<Option<PathBuf>, Exit> {
        if !takes(self.uses, secret.group()) {
            return Ok(None);
        }
        let named = self.secret_files()?.remove(&secret);
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
        let file = folder.join(format!("{secret:?}").to_ascii_lowercase());
        let is_there = file
            .try_exists()
            .map_err(|error| refused(format!("cannot be read: {error}")))?;
        Ok(is_there.then_some(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{SettingValues, commands};
    use std::path::Path;

    fn layers(text: &str, folder: Option<&Path>) -> Layers {
        Layers {
            first: SettingValues {
                secrets_dir: folder.map(Path::to_owned),
                ..SettingValues::default()
            },
            file: toml::from_str(text).expect(text),
            uses: commands::DEV,
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
    fn a_command_looks_for_no_secret_that_it_has_no_use_for() {
        let migrates = Layers {
            uses: commands::DATABASE_ONLY,
            ..layers("secret_files.redis = \"r\"", Some(Path::new("not/there")))
        };
        for secret in [Secret::Redis, Secret::Links, Secret::Webhooks, Secret::Seal] {
            assert_eq!(migrates.secret_file(secret).unwrap(), None, "{secret:?}");
        }
        migrates.secret_file(Secret::Database).unwrap_err();
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
