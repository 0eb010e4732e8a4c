//! The file under an archive that is being written. Must not hide an error: the first one goes to
//! the caller as it is.
//!
//! A `ZipWriter` that is dropped half-way finishes its archive, and where that fails it writes to
//! the process's standard error, in the middle of the log. So after the first error this file only
//! pretends: it takes everything and keeps nothing.

use std::io::{self, ErrorKind, Seek, SeekFrom, Write};

#[derive(Debug)]
pub(super) struct ArchiveFile<W> {
    file: W,
    at: u64,
    end: u64,
    broken: bool,
}

impl<W> ArchiveFile<W> {
    /// Of an empty file.
    pub(super) const fn new(file: W) -> Self {
        Self {
            file,
            at: 0,
            end: 0,
            broken: false,
        }
    }

    fn noted<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        // An interrupted call is made again.
        self.broken |= result
            .as_ref()
            .is_err_and(|error| error.kind() != ErrorKind::Interrupted);
        result
    }

    fn moved(&mut self, to: u64) -> u64 {
        (self.at, self.end) = (to, self.end.max(to));
        to
    }
}

impl<W: Write> Write for ArchiveFile<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = if self.broken {
            Ok(bytes.len())
        } else {
            self.file.write(bytes)
        };
        let written = self.noted(written)?;
        self.moved(self.at + written as u64);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = if self.broken {
            Ok(())
        } else {
            self.file.flush()
        };
        self.noted(flushed)
    }
}

impl<W: Seek> Seek for ArchiveFile<W> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let sought = if self.broken {
            match to {
                SeekFrom::Start(at) => Some(at),
                SeekFrom::Current(by) => self.at.checked_add_signed(by),
                SeekFrom::End(by) => self.end.checked_add_signed(by),
            }
            .ok_or_else(|| ErrorKind::InvalidInput.into())
        } else {
            self.file.seek(to)
        };
        let at = self.noted(sought)?;
        Ok(self.moved(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;
    use zip::write::SimpleFileOptions;
    use zip::{CompressionMethod, ZipWriter};

    /// A disk with room for so many bytes.
    struct Full(Cursor<Vec<u8>>, u64);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.0.position() + bytes.len() as u64 > self.1 {
                return Err(ErrorKind::StorageFull.into());
            }
            self.0.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Seek for Full {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.0.seek(to)
        }
    }

    fn store(zip: &mut ZipWriter<ArchiveFile<Full>>) -> io::Result<()> {
        for name in ["a", "b"] {
            let options =
                SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
            zip.start_file(name, options).map_err(io::Error::other)?;
            zip.write_all(&[7; 200_000])?;
        }
        Ok(())
    }

    #[test]
    fn wherever_a_disk_is_full_the_writer_has_no_second_error_to_print() {
        for room in [0, 10, 70_000, 200_050, 300_000] {
            let mut zip = ZipWriter::new(ArchiveFile::new(Full(Cursor::default(), room)));
            store(&mut zip).expect_err("there is no room");
            // What the writer's drop does, and whose error it prints.
            zip.finish()
                .unwrap_or_else(|error| panic!("{room}: {error}"));
        }
    }
}
