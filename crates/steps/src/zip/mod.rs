//! A ZIP archive of stored files, deflated on all cores. Must not know the step that makes it.

mod archive;
mod blocks;

use crate::blocking::Blocking;
use crate::error::StepResult;
use crate::scratch::ScratchDraft;
use archive::Archive;
use counterstep_contracts::StoredFiles;

impl Blocking {
    /// Writes a ZIP archive of these files, in their order and by their [distinct names](StoredFiles::distinct_names), and
    /// returns the draft, to be sealed.
    ///
    /// The files are deflated (level 6) in blocks of 256 KiB, on all cores and in at most 16 MiB of memory; the same files give
    /// the same bytes. What is read counts as the step's progress, with their sizes as its total. The sizes of a file stand
    /// before its data, so that an archive can be unpacked while it arrives; those of files from 4 GB on have 64 bits (ZIP64).
    /// No time of modification is known: it is 1 January 1980.
    ///
    /// # Errors
    /// As [`reader`](Self::reader) and [`writer`](Self::writer); transient where a file cannot be read or the archive cannot be
    /// written.
    pub fn zip(&self, draft: ScratchDraft, files: &StoredFiles) -> StepResult<ScratchDraft> {
        let bytes = files.iter().map(|file| file.size_bytes).sum();
        self.expect(bytes);
        let mut archive = Archive::new(self.writer(draft)?);
        let sizes = files.iter().map(|file| file.size_bytes);
        let mut entries = files.distinct_names().into_iter().zip(sizes);
        let readers = files.iter().map(|file| self.reader(file));
        blocks::deflate(readers, bytes, |block| archive.take(block, &mut entries))?;
        archive.finish()?.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::archive::LARGE;
    use super::blocks::{BLOCK, deflate_on};
    use super::*;
    use crate::error::StepError;
    use std::io::{self, Cursor, Read};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use zip::ZipArchive;

    /// Bytes that do not compress.
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

    /// Bytes that do.
    fn text(bytes: usize) -> Vec<u8> {
        let all = b"all that is read twice ".iter().cycle();
        all.copied().take(bytes).collect()
    }

    /// An archive of files that are all called `a`, made by this many threads beside that of the test.
    fn zipped<R: Read + Send>(
        beside: usize,
        files: impl Iterator<Item = StepResult<R>> + Send,
    ) -> StepResult<Vec<u8>> {
        let mut archive = Archive::new(Cursor::new(Vec::new()));
        let mut entries = std::iter::repeat_with(|| ("a".to_owned(), 0));
        deflate_on(beside, files, |block| archive.take(block, &mut entries))?;
        Ok(archive.finish()?.into_inner())
    }

    #[test]
    fn files_of_any_number_of_blocks_come_back_the_same_with_any_number_of_threads() {
        let files = [
            Vec::new(),
            noise(BLOCK - 1),
            noise(BLOCK),
            text(BLOCK + 1),
            text(20 * BLOCK + 17),
            noise(9 * BLOCK),
        ];
        let readers = || files.iter().map(|bytes| Ok(&bytes[..]));
        let archive = zipped(0, readers()).expect("an archive");
        for beside in [1, 2, 7] {
            assert!(archive == zipped(beside, readers()).expect("an archive"));
        }
        let all: usize = files.iter().map(Vec::len).sum();
        assert!(archive.len() < all * 6 / 10, "{} of {all}", archive.len());
        let mut stream = &archive[..];
        for bytes in &files {
            let file = ::zip::read::read_zipfile_from_stream(&mut stream).expect("a header");
            let mut content = Vec::new();
            // It compares the sum of the file, too.
            file.expect("a file")
                .read_to_end(&mut content)
                .expect("whole");
            assert!(content == *bytes, "of {} bytes", bytes.len());
        }
    }

    /// The largest file with sizes of 32 bits still has them after it has grown.
    #[test]
    fn a_file_just_below_the_limit_has_room_to_grow() {
        let file = noise(8 * BLOCK);
        let archive = zipped(1, [Ok(&file[..])].into_iter()).expect("an archive");
        let mut read = ZipArchive::new(Cursor::new(archive)).expect("an archive");
        let grown = read.by_index(0).expect("the file").compressed_size();
        let size = file.len() as u64;
        assert!(grown > size, "noise does not compress");
        let at_the_limit = LARGE + LARGE * (grown - size) / size;
        assert!(at_the_limit < u64::from(u32::MAX), "{at_the_limit}");
    }

    /// Blocks of text, and then no more.
    struct Broken(u64, fn() -> io::Result<usize>);

    impl Read for Broken {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0 == 0 {
                return self.1();
            }
            self.0 -= 1;
            Ok(buffer.len())
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_or_opened_ends_the_archive() {
        let broken = || Broken(20, || Err(io::Error::other("the disk is gone")));
        for beside in [0, 3] {
            for (file, message) in [
                (Ok(broken()), "the disk is gone"),
                (
                    Err(StepError::permanent("it is not there")),
                    "it is not there",
                ),
            ] {
                let files = [Ok(Broken(3, || Ok(0))), file].into_iter();
                let error = zipped(beside, files).expect_err("no archive").to_string();
                assert!(error.contains(message), "{error}");
            }
        }
    }

    #[test]
    fn a_writer_that_fails_ends_the_reading_of_files_without_end() {
        for beside in [0, 3] {
            let endless = std::iter::repeat_with(|| Ok(Broken(3, || Ok(0))));
            let mut left = 50;
            let full = deflate_on(beside, endless, |_| {
                left -= 1;
                match left {
                    0 => Err(StepError::transient("no room")),
                    _ => Ok(()),
                }
            });
            assert!(full.expect_err("no room").to_string().contains("no room"));
            assert_eq!(left, 0, "no block is taken after the error");
        }
    }

    #[test]
    fn a_panic_of_any_thread_goes_on_in_the_one_that_called() {
        for beside in [0, 1, 3] {
            // Whichever thread reads the block, and so sometimes each.
            for blocks in 0..20 {
                let files = [Ok(Broken(blocks, || panic!("as it was asked to")))].into_iter();
                let panicked = catch_unwind(AssertUnwindSafe(|| zipped(beside, files)));
                let panic = panicked.expect_err("a panic");
                assert_eq!(panic.downcast_ref(), Some(&"as it was asked to"));
            }
        }
    }

    #[test]
    fn threads_beside_those_of_sections_are_as_many_as_cores_in_all() {
        let cores = std::thread::available_parallelism().map_or(1, Into::into);
        let all = blocks::Beside::new(usize::MAX);
        assert_eq!(all.0, cores);
        assert_eq!(blocks::Beside::new(1).0, 0);
        drop(all);
    }
}
