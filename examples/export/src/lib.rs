//! An export of a customer's rows: written to the worker's disk line by line, with its progress,
//! stored as an object, and deleted after a week.

mod rows;

use counterstep::contracts::Keep;
use counterstep::prelude::*;
pub use rows::Rows;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncWriteExt, BufWriter};

#[derive(Debug, Serialize, Deserialize)]
pub struct Request {
    pub customer: String,
}

/// Rows on the disk of one worker. The file never leaves it: where it is gone, the step runs again.
#[derive(Debug, Serialize, Deserialize)]
pub struct Written {
    pub file: ScratchFile,
    pub rows: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Exported {
    pub rows: u64,
    /// `GET /api/tasks/{id}/result/file` downloads it.
    pub file: StoredFile,
}

const PATIENT: RetryPolicy = RetryPolicy::exponential("500ms").max_retries(5).cap("1m");

/// Between two looks at the cancel token and two words on progress.
const ROWS_AT_A_TIME: u64 = 1_000;

pub struct Export;

#[distributed_task(cancellable, timeout = "1h")]
impl Export {
    type Request = Request;
    type Response = Exported;

    #[step(1, host = "worker", retry = PATIENT, no_undo = "writes scratch only")]
    async fn write(
        ctx: &StepContext,
        request: &Request,
        rows: &State<Rows>,
    ) -> StepResult<Written> {
        let (total, mut lines) = rows.of(&request.customer).await?;
        let draft = ctx.scratch("export.csv").await?;
        let file = tokio::fs::File::create(draft.path()).await;
        let mut file = BufWriter::new(file.transient("making the file")?);
        let mut written = 0;
        while let Some(line) = lines.next_line().await.transient("reading the rows")? {
            let line = format!("{line}\n");
            let sent = file.write_all(line.as_bytes()).await;
            sent.transient("writing the file")?;
            written += 1;
            if written % ROWS_AT_A_TIME == 0 {
                ctx.progress(written, total);
                ctx.go_on()?;
            }
        }
        file.flush().await.transient("writing the file")?;
        tracing::info!(rows = written, "rows written");
        Ok(Written {
            file: draft.seal().await?,
            rows: written,
        })
    }

    /// A built-in step: the body says what, the engine stores, and deletes on undo.
    #[step(2, host = "worker")]
    fn store(written: &Written) -> UploadOne {
        UploadOne::to("exports", &written.file).content_type("text/csv")
    }

    fn respond(written: &Written, store: &StoredFile) -> Exported {
        Exported {
            rows: written.rows,
            file: store.clone(),
        }
    }
}

pub fn tasks(rows: Rows) -> Registry {
    Registry::new()
        .provide(rows)
        .with::<Export>()
        .retention::<Export>(Retention {
            completed: Some(Keep::delete_after("7d")),
            ..Retention::default()
        })
}
