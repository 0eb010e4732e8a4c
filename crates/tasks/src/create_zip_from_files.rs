//! Files arrive at the API and are stored; a worker zips them; a worker stores the ZIP.

use counterstep_macros::distributed_task;
use counterstep_steps::prelude::*;
use serde::{Deserialize, Serialize};
use std::io;
use zip::{ZipWriter, write::SimpleFileOptions};

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

/// Bytes from which on a file gets the sizes of 64 bits. A file that does not compress grows by up to a thousandth, so this is
/// well below what 32 bits hold.
const LARGE: u64 = 4_000_000_000;

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
        let made = ctx.blocking(move |on| {
            on.expect(sources.iter().map(|file| file.size_bytes).sum());
            let mut zip = ZipWriter::new(on.writer(draft)?);
            for (file, name) in sources.iter().zip(sources.distinct_names()) {
                let options = SimpleFileOptions::default().large_file(file.size_bytes >= LARGE);
                zip.start_file(name, options).transient("starting a file")?;
                io::copy(&mut on.reader(file)?, &mut zip).transient("writing the archive")?;
            }
            zip.finish().transient("finishing the archive")?.finish()
        });
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Cursor, Write};

    /// The largest file with sizes of 32 bits still has them after it has grown.
    #[test]
    fn a_file_just_below_the_limit_has_room_to_grow() {
        let mut noise = Vec::new();
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..1 << 18 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            noise.extend(state.to_le_bytes());
        }
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        let options = SimpleFileOptions::default();
        zip.start_file("noise", options).expect("an entry");
        zip.write_all(&noise).expect("room");
        let archive = zip.finish().expect("an archive").into_inner();
        let mut read = zip::ZipArchive::new(Cursor::new(archive)).expect("an archive");
        let grown = read.by_index(0).expect("the entry").compressed_size();
        let size = noise.len() as u64;
        assert!(grown > size, "noise does not compress");
        let at_the_limit = LARGE + LARGE * (grown - size) / size;
        assert!(at_the_limit < u64::from(u32::MAX), "{at_the_limit}");
    }
}
