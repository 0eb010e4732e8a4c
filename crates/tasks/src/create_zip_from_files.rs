//! Files arrive at the API and are stored; a worker zips them; a worker stores the ZIP.

mod archive_file;

use archive_file::ArchiveFile;
use counterstep_macros::distributed_task;
use counterstep_steps::{
    Classify, FileName, RetryPolicy, ScratchFile, StepContext, StepError, StepResult,
};
use counterstep_steps::{StoredFile, StoredFiles, UploadMany, UploadOne, UploadedFile};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Weak};
use std::{fs::File, io};
use tokio_util::io::{InspectReader, SyncIoBridge};
use zip::{ZipWriter, write::SimpleFileOptions};

/// What a client sends.
#[derive(Serialize, Deserialize)]
pub struct CreateZipRequest {
    /// What goes into the archive.
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
#[derive(Serialize, Deserialize)]
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
    name = "CreateZipFromFiles",
    version = 1,
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
        let draft = ctx.scratch("archive.zip").await?;
        let mut zip = ZipWriter::new(ArchiveFile::new(
            File::create(draft.path()).transient("opening the archive")?,
        ));
        // Gone when the step is dropped, at its time limit or on a cancel.
        let awaited = Arc::new(());
        let (total, mut done) = (sources.iter().map(|file| file.size_bytes).sum(), 0);
        for (file, name) in sources.iter().zip(sources.distinct_names()) {
            ctx.go_on()?;
            let (meter, mut read) = (ctx.meter(), done);
            let watched = InspectReader::new(ctx.objects().reader(file).await?, move |bytes| {
                read += bytes.len() as u64;
                meter.tell(read, total);
            });
            done += file.size_bytes;
            let mut source = WhileAwaited {
                inner: SyncIoBridge::new(watched),
                step: Arc::downgrade(&awaited),
            };
            let options =
                SimpleFileOptions::default().large_file(file.size_bytes >= u64::from(u32::MAX));
            zip = tokio::task::spawn_blocking(move || {
                zip.start_file(name, options).map_err(io::Error::other)?;
                io::copy(&mut source, &mut zip).map(|_| zip)
            })
            .await
            .map_err(StepError::transient)?
            .transient("writing the archive")?;
        }
        zip.finish().transient("finishing the archive")?;
        Ok(ZipArchive {
            zip: draft.seal().await?,
            file_count: sources.len(),
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

/// A source for a blocking thread, which is not stopped when its step is dropped: it ends with an
/// error then, or the thread would compress to the end of the file beside the next heavy step.
struct WhileAwaited<R> {
    inner: R,
    step: Weak<()>,
}

impl<R: io::Read> io::Read for WhileAwaited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.step.strong_count() == 0 {
            return Err(io::Error::other("its step has stopped"));
        }
        self.inner.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn a_source_ends_with_an_error_once_its_step_is_gone() {
        let awaited = Arc::new(());
        let mut source = WhileAwaited {
            inner: io::repeat(7),
            step: Arc::downgrade(&awaited),
        };
        source.read_exact(&mut [0; 4]).expect("its step is there");
        drop(awaited);
        source
            .read_exact(&mut [0; 4])
            .expect_err("its step is gone");
    }
}
