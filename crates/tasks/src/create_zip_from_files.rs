//! Files arrive at the API and are stored; a worker zips them; a worker stores the ZIP.

use counterstep_macros::distributed_task;
use counterstep_steps::prelude::*;
use serde::{Deserialize, Serialize};

/// What a client sends.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct CreateZipRequest {
    /// What goes into the archive.
    #[schemars(length(min = 1))]
    pub files: Vec<UploadedFile>,
    /// What the archive is called; `archive.zip` otherwise.
    pub output_file_name: Option<FileName>,
}

/// What step 2 gives to step 3.
#[derive(Serialize, Deserialize)]
pub struct ZipArchive {
    /// On the worker that made it.
    pub zip: ScratchFile,
    /// Files in it.
    pub file_count: usize,
}

/// What a client gets.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct CreateZipResponse {
    /// Key, bucket, size in bytes.
    pub zip: StoredFile,
    /// Files in it.
    pub file_count: usize,
}

/// A full disk may have room again in a moment.
pub const ZIP_RETRY: RetryPolicy = RetryPolicy::exponential("500ms")
    .max_retries(3)
    .jitter(true);

/// Makes one ZIP of many files.
pub struct CreateZipFromFiles;

#[distributed_task(
    queue = "file-processing",
    timeout = "10m",
    max_recoveries = 10,
    cancellable
)]
impl CreateZipFromFiles {
    type Request = CreateZipRequest;
    type Response = CreateZipResponse;

    #[step(1, host = "api")]
    fn upload_source_files(req: &CreateZipRequest) -> UploadMany {
        UploadMany::to("incoming-files", &req.files)
    }

    #[step(2, host = "worker", heavy, retry = ZIP_RETRY, no_undo = "writes scratch only")]
    async fn create_zip_archive(
        ctx: &StepContext,
        sources: &StoredFiles,
    ) -> StepResult<ZipArchive> {
        let (draft, sources) = (ctx.scratch("archive.zip").await?, sources.clone());
        let file_count = sources.len();
        let made = ctx.blocking(move |on| on.zip(draft, &sources));
        Ok(ZipArchive {
            zip: made.await?.seal().await?,
            file_count,
        })
    }

    #[step(3, host = "worker")]
    fn upload_zip(req: &CreateZipRequest, archive: &ZipArchive) -> UploadOne {
        UploadOne::to("processed-files", &archive.zip)
            .named(&req.output_file_name)
            .content_type("application/zip")
    }

    fn respond(archive: &ZipArchive, upload_zip: &StoredFile) -> CreateZipResponse {
        CreateZipResponse {
            zip: upload_zip.clone(),
            file_count: archive.file_count,
        }
    }
}
