//! Accounts and mails as files in a folder, in the place of a directory service and a mail server.

use counterstep::prelude::*;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Provided to the steps as `&State<Office>`.
#[derive(Debug, Clone)]
pub struct Office {
    folder: PathBuf,
}

impl Office {
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    pub async fn write_account(&self, number: &str, name: &str) -> StepResult<()> {
        self.write(&self.account(number), name).await
    }

    /// That it is not there is success.
    pub async fn remove_account(&self, number: &str) -> UndoResult {
        match tokio::fs::remove_file(self.account(number)).await {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(StepError::transient(error)),
            _ => Ok(()),
        }
    }

    pub fn has_account(&self, number: &str) -> bool {
        self.account(number).is_file()
    }

    /// Once for each key, however often it is called.
    pub async fn send(&self, key: &str, to: &str, text: &str) -> StepResult<()> {
        let mail = self.folder.join("mails").join(key.replace(':', "."));
        self.write(&mail, &format!("To: {to}\n\n{text}")).await
    }

    fn account(&self, number: &str) -> PathBuf {
        self.folder.join("accounts").join(number)
    }

    async fn write(&self, file: &Path, text: &str) -> StepResult<()> {
        if let Some(folder) = file.parent() {
            let made = tokio::fs::create_dir_all(folder).await;
            made.transient("making the office's folder")?;
        }
        tokio::fs::write(file, text)
            .await
            .transient("writing to the office")
    }
}
