//! Files arrive at the API and are stored; a worker zips them; a worker stores the ZIP.

use blocks::Blocks;
use counterstep_macros::distributed_task;
use counterstep_steps::prelude::*;
use flate2::Crc;
use rawzip::{CompressionMethod, DataDescriptorOutput, ZipArchiveWriter};
use serde::{Deserialize, Serialize};
use std::io::Write;

mod blocks;

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
        let made = ctx.blocking(move |on| {
            on.expect(sources.iter().map(|file| file.size_bytes).sum());
            let writer = on.writer(draft)?;
            let files = sources.iter().map(|file| on.reader(file));
            blocks::deflate(files, |blocks| {
                write_archive(writer, sources.distinct_names(), blocks)
            })?
            .finish()
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

/// Writes a ZIP of files with these names, which their blocks are of.
fn write_archive<W: Write>(
    writer: W,
    names: impl IntoIterator<Item = impl AsRef<str>>,
    blocks: &mut Blocks,
) -> StepResult<W> {
    let writing = "writing the archive";
    let mut zip = ZipArchiveWriter::new(writer);
    for name in names {
        let file = zip.new_file(name.as_ref());
        let file = file.compression_method(CompressionMethod::DEFLATE).start();
        let (mut file, _) = file.transient("starting a file")?;
        let (mut crc, mut size) = (Crc::new(), 0);
        loop {
            let block = blocks.next()?;
            file.write_all(&block.bytes).transient(writing)?;
            crc.combine(&block.crc);
            size += block.size;
            if block.is_last {
                break;
            }
        }
        let written = DataDescriptorOutput::new(crc.sum(), size);
        file.finish(written).transient("finishing a file")?;
    }
    zip.finish().transient("finishing the archive")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Cursor, Read};

    /// Bytes that hardly compress, and bytes that do.
    fn noise(bytes: usize) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        };
        let all = std::iter::from_fn(|| Some(next())).flatten();
        all.take(bytes).collect()
    }

    fn zipped(files: &[(&str, Vec<u8>)]) -> Vec<u8> {
        let readers = files.iter().map(|(_, bytes)| Ok(&bytes[..]));
        let names = files.iter().map(|(name, _)| *name);
        let archive = blocks::deflate(readers, |blocks| write_archive(Vec::new(), names, blocks));
        archive.expect("an archive")
    }

    #[test]
    fn files_of_any_number_of_blocks_come_back_as_they_were() {
        let text = |bytes| {
            "all that is read twice "
                .bytes()
                .cycle()
                .take(bytes)
                .collect()
        };
        let block = blocks::BLOCK;
        let files = [
            ("nothing", Vec::new()),
            ("a block less a byte", noise(block - 1)),
            ("a block", noise(block)),
            ("größer", text(block + 1)),
            ("many", text(20 * block + 17)),
            ("many of noise", noise(9 * block)),
        ];
        let archive = zipped(&files);
        let mut read = zip::ZipArchive::new(Cursor::new(&archive)).expect("an archive");
        assert_eq!(read.len(), files.len());
        for (at, (name, bytes)) in files.iter().enumerate() {
            let mut file = read.by_index(at).expect("a file");
            assert_eq!(file.name().expect("a name"), *name);
            let mut content = Vec::new();
            // It compares the sum of the file, too.
            file.read_to_end(&mut content).expect(name);
            assert!(content == *bytes, "{name}");
        }
        let all: usize = files.iter().map(|(_, bytes)| bytes.len()).sum();
        assert!(archive.len() < all * 6 / 10, "{} of {all}", archive.len());
        assert!(archive == zipped(&files), "the same twice");
    }

    #[test]
    fn a_file_that_cannot_be_read_ends_the_archive_and_a_writer_that_fails_ends_the_reading() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
                Err(std::io::Error::other("the disk is gone"))
            }
        }
        let gone = || Err(StepError::permanent("it is not there"));
        for (file, what) in [
            (Ok(Broken), "the disk is gone"),
            (gone(), "it is not there"),
        ] {
            let archive = blocks::deflate([file].into_iter(), |blocks| {
                write_archive(Vec::new(), ["a"], blocks)
            });
            let error = archive.expect_err("no archive").to_string();
            assert!(error.contains(what), "{error}");
        }
        // Reading it would not end.
        let endless = std::iter::repeat_with(|| Ok(std::io::repeat(7).take(1 << 20)));
        let full = blocks::deflate(endless, |blocks| {
            let room = &mut [0; 2_000][..];
            write_archive(room, std::iter::repeat("a"), blocks).map(drop)
        });
        assert!(full.is_err(), "no room");
    }
}
