//! The example of the design, as its author writes it.

use counterstep_macros::distributed_task;
use counterstep_steps::{
    RetryPolicy, ScratchFile, StepContext, StepResult, StoredFile, StoredFiles, UploadMany,
    UploadOne, UploadedFile,
};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
pub struct CreateZipRequest {
    pub files: Vec<UploadedFile>,
    pub output_file_name: Option<counterstep_steps::FileName>,
}

#[derive(Serialize, Deserialize)]
pub struct CreateZipResponse {
    pub count: usize,
    pub zip: StoredFile,
}

#[derive(Serialize, Deserialize)]
pub struct ZipArchive {
    pub zip: ScratchFile,
}

pub struct CreateZipFromFiles;

#[distributed_task(
    name = "CreateZipFromFiles",
    version = 1,
    queue = "file-processing",
    timeout = "10m",
    max_recoveries = 2,
    cancellable
)]
impl CreateZipFromFiles {
    type Request = CreateZipRequest;
    type Response = CreateZipResponse;

    /// Built-in step (not async): the body says what; the engine streams, records, and deletes on
    /// undo.
    #[step(1, host = "api")]
    fn upload_source_files(req: &CreateZipRequest) -> UploadMany {
        UploadMany::to("incoming-files", &req.files)
    }

    #[step(2, host = "worker", retry = ZIP_RETRY, no_undo = "writes scratch only")]
    async fn create_zip_archive(
        ctx: &StepContext,
        sources: &StoredFiles,
    ) -> StepResult<ZipArchive> {
        let _ = sources;
        Ok(ZipArchive {
            zip: ctx.scratch("a.zip").await?.seal().await?,
        })
    }

    #[step(3, host = "worker")]
    fn upload_zip(req: &CreateZipRequest, archive: &ZipArchive) -> UploadOne {
        UploadOne::to("processed-files", &archive.zip).named(&req.output_file_name)
    }

    fn respond(
        sources: &StoredFiles,
        archive: &ZipArchive,
        upload_zip: &StoredFile,
    ) -> CreateZipResponse {
        let _ = (sources, archive);
        CreateZipResponse {
            count: 1,
            zip: upload_zip.clone(),
        }
    }
}

pub const ZIP_RETRY: RetryPolicy = RetryPolicy::exponential("500ms")
    .max_retries(3)
    .jitter(true);

pub fn main() {
    let _ = counterstep_steps::Registry::new().with::<CreateZipFromFiles>();
}
