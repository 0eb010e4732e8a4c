//! Rows as a file for each customer, in the place of a database.

use counterstep::prelude::*;
use std::io::ErrorKind;
use std::path::PathBuf;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};

/// Provided to the steps as `&State<Rows>`.
#[derive(Debug, Clone)]
pub struct Rows {
    folder: PathBuf,
}

impl Rows {
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// How many rows a customer has, and the rows.
    pub async fn of(&self, customer: &str) -> StepResult<(u64, Lines<BufReader<tokio::fs::File>>)> {
        // A name from outside is no path.
        if !customer.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(StepError::permanent(format_args!(
                "invalid customer `{}`: expected letters and digits",
                customer.escape_debug()
            )));
        }
        let path = self.folder.join(format!("{customer}.csv"));
        let mut counted = open(&path, customer).await?.lines();
        let mut total = 0;
        while counted
            .next_line()
            .await
            .transient("counting the rows")?
            .is_some()
        {
            total += 1;
        }
        Ok((total, open(&path, customer).await?.lines()))
    }
}

async fn open(path: &PathBuf, customer: &str) -> StepResult<BufReader<tokio::fs::File>> {
    match tokio::fs::File::open(path).await {
        Err(error) if error.kind() == ErrorKind::NotFound => Err(StepError::permanent(
            format_args!("there is no customer `{customer}`"),
        )),
        opened => Ok(BufReader::new(opened.transient("opening the rows")?)),
    }
}
