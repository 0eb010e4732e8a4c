//! Sales as lines `article,cents` in a file for each shop, in the place of a database.

use crate::Sum;
use counterstep::prelude::*;
use std::io::ErrorKind;
use std::path::PathBuf;

/// Provided to the steps as `&State<Sales>`.
#[derive(Debug, Clone)]
pub struct Sales {
    folder: PathBuf,
}

impl Sales {
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// What a shop has sold; a shop without a file has sold nothing.
    pub async fn sum_of(&self, shop: &str) -> StepResult<Sum> {
        // A name from outside is no path.
        if !shop.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(StepError::permanent(format_args!(
                "invalid shop `{}`: expected letters and digits",
                shop.escape_debug()
            )));
        }
        let path = self.folder.join(format!("{shop}.csv"));
        let text = match tokio::fs::read_to_string(path).await {
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            read => read.transient("reading the sales")?,
        };
        let mut sum = Sum { sales: 0, cents: 0 };
        for (at, line) in text.lines().enumerate() {
            let cents = line
                .rsplit(',')
                .next()
                .and_then(|it| it.trim().parse::<u64>().ok());
            let cents = cents.ok_or_else(|| {
                StepError::permanent(format_args!(
                    "line {} of the sales of {shop}: expected `article,cents`",
                    at + 1
                ))
            })?;
            sum.sales += 1;
            sum.cents += cents;
        }
        Ok(sum)
    }
}
