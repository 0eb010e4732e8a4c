//! The format of a ZIP archive (PKWARE APPNOTE 6.3.3): a header before each file, and the directory behind all of them. Must not
//! deflate. The `zip` crate takes no data that is deflated already, and rawzip writes the sizes of a file behind its data.

use super::blocks::Block;
use crate::error::{Classify, StepError, StepResult};
use flate2::Crc;
use std::io::{Seek, SeekFrom, Write};

/// Bytes from which on a file gets the sizes of 64 bits. A file that does not compress grows by up to a thousandth, so this is
/// well below what 32 bits hold.
pub(super) const LARGE: u64 = 4_000_000_000;

/// What 32 bits hold says that the value has 64, elsewhere.
const WIDE: u64 = u32::MAX as u64;

/// A regular file of Unix, readable for all.
const ATTRIBUTES: u32 = 0o100_644 << 16;

/// In the upper byte of the version that an archive is made by.
const UNIX: u16 = 3 << 8;

const DEFLATED: u16 = 8;

/// Midnight of 1 January 1980: time and date.
const EARLIEST: [u16; 2] = [0, 0x21];

/// An archive that is being written.
pub(super) struct Archive<W> {
    writer: W,
    /// Where the next byte goes.
    at: u64,
    directory: Vec<u8>,
    count: u64,
    entry: Entry,
}

/// A file in it.
#[derive(Default)]
struct Entry {
    name: String,
    is_large: bool,
    /// Where its header begins.
    at: u64,
    crc: Crc,
    deflated: u64,
    size: u64,
}

impl<W: Write + Seek> Archive<W> {
    /// With a writer that has written nothing.
    pub(super) fn new(writer: W) -> Self {
        Self {
            writer,
            at: 0,
            directory: Vec::new(),
            count: 0,
            entry: Entry::default(),
        }
    }

    /// Appends a block. Each file whose first one comes has the next name and size of `entries`.
    pub(super) fn take(
        &mut self,
        block: &Block,
        entries: &mut impl Iterator<Item = (String, u64)>,
    ) -> StepResult<()> {
        if block.is_first
            && let Some((name, size)) = entries.next()
        {
            self.start(name, size)?;
        }
        self.write(&block.deflated, &block.crc, block.size())?;
        if block.is_last {
            self.end()?;
        }
        Ok(())
    }

    /// Begins a file of `size` bytes.
    fn start(&mut self, name: String, size: u64) -> StepResult<()> {
        self.entry = Entry {
            name,
            is_large: size >= LARGE,
            at: self.at,
            ..Entry::default()
        };
        let header = self.entry.record(false)?;
        self.append(&header, "starting a file")
    }

    /// Appends deflated data to the file, of `size` bytes with this sum.
    fn write(&mut self, deflated: &[u8], crc: &Crc, size: u64) -> StepResult<()> {
        self.entry.crc.combine(crc);
        self.entry.size += size;
        self.entry.deflated += deflated.len() as u64;
        self.append(deflated, "writing the archive")
    }

    /// Ends the file: what its header could not have yet is written into it.
    fn end(&mut self) -> StepResult<()> {
        let entry = &self.entry;
        if !entry.is_large && entry.size.max(entry.deflated) >= WIDE {
            let error = "finishing a file: it is larger than it was to be";
            return Err(StepError::permanent(error));
        }
        let (header, end) = (entry.record(false)?, self.at);
        let mut rewrite = || {
            self.writer.seek(SeekFrom::Start(entry.at))?;
            self.writer.write_all(&header)?;
            self.writer.seek(SeekFrom::Start(end))
        };
        rewrite().transient("finishing a file")?;
        self.directory.extend(entry.record(true)?);
        self.count += 1;
        Ok(())
    }

    /// Writes the directory.
    pub(super) fn finish(mut self) -> StepResult<W> {
        let (start, count) = (self.at, self.count);
        let length = self.directory.len() as u64;
        let narrow = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        let short = u16::try_from(count).unwrap_or(u16::MAX);
        let mut end = std::mem::take(&mut self.directory);
        if short == u16::MAX || start.max(length) >= WIDE {
            let wide = Record::new([6, 6]).u64([44]).u16([UNIX | 45, 45]);
            let wide = wide.u32([0, 0]).u64([count, count, length, start]);
            let place = Record::new([6, 7]).u32([0]).u64([start + length]);
            end.extend(wide.bytes(&place.u32([1]).0).0);
        }
        let last = Record::new([5, 6]).u16([0, 0, short, short]);
        end.extend(last.u32([narrow(length), narrow(start)]).u16([0]).0);
        self.append(&end, "finishing the archive")?;
        Ok(self.writer)
    }

    fn append(&mut self, bytes: &[u8], doing: &str) -> StepResult<()> {
        self.at += bytes.len() as u64;
        self.writer.write_all(bytes).transient(doing)
    }
}

impl Entry {
    /// What stands in the directory, or before the data.
    fn record(&self, in_directory: bool) -> StepResult<Vec<u8>> {
        let mut wide = Vec::new();
        let mut narrow = |value: u64, is_wide: bool| match u32::try_from(value) {
            Ok(narrow) if !is_wide && value < WIDE => narrow,
            _ => {
                wide.push(value);
                u32::MAX
            }
        };
        let size = narrow(self.size, self.is_large);
        let deflated = narrow(self.deflated, self.is_large);
        let at = narrow(if in_directory { self.at } else { 0 }, false);
        // What a reader has to understand: sizes of 64 bits, or deflated data.
        let (version, extra) = match wide.len() as u16 * 8 {
            0 => (20, Record(Vec::new())),
            length => (45, Record(Vec::new()).u16([1, length]).u64(wide)),
        };
        let lengths = [self.name.len(), extra.0.len()].map(u16::try_from);
        let [Ok(name_length), Ok(extra_length)] = lengths else {
            return Err(StepError::permanent("a name in an archive is too long"));
        };
        let is_utf8 = u16::from(!self.name.is_ascii()) << 11;
        let record = match in_directory {
            true => Record::new([1, 2]).u16([UNIX | version]),
            false => Record::new([3, 4]),
        };
        let record = record.u16([version, is_utf8, DEFLATED]).u16(EARLIEST);
        let record = record.u32([self.crc.sum(), deflated, size]);
        let record = record.u16([name_length, extra_length]);
        let record = match in_directory {
            true => record.u16([0; 3]).u32([ATTRIBUTES, at]),
            false => record,
        };
        Ok(record.bytes(self.name.as_bytes()).bytes(&extra.0).0)
    }
}

/// Bytes, and numbers whose lowest byte is the first.
struct Record(Vec<u8>);

impl Record {
    fn new([kind, part]: [u8; 2]) -> Self {
        Self(vec![b'P', b'K', kind, part])
    }

    fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    fn u16(mut self, numbers: impl IntoIterator<Item = u16>) -> Self {
        self.0
            .extend(numbers.into_iter().flat_map(u16::to_le_bytes));
        self
    }

    fn u32(mut self, numbers: impl IntoIterator<Item = u32>) -> Self {
        self.0
            .extend(numbers.into_iter().flat_map(u32::to_le_bytes));
        self
    }

    fn u64(mut self, numbers: impl IntoIterator<Item = u64>) -> Self {
        self.0
            .extend(numbers.into_iter().flat_map(u64::to_le_bytes));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::write::DeflateEncoder;
    use std::io::{Cursor, Read};
    use std::process::Command;
    use zip::write::SimpleFileOptions;
    use zip::{ZipArchive, ZipWriter, read::read_zipfile_from_stream};

    fn deflated(bytes: &[u8]) -> (Vec<u8>, Crc) {
        let mut encoder = DeflateEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bytes).expect("room");
        let mut crc = Crc::new();
        crc.update(bytes);
        (encoder.finish().expect("room"), crc)
    }

    fn add<W: Write + Seek>(to: &mut Archive<W>, name: &str, bytes: &[u8], said: u64) {
        to.start(name.into(), said).expect("a file");
        let (deflated, crc) = deflated(bytes);
        to.write(&deflated, &crc, bytes.len() as u64).expect("room");
        to.end().expect("its end");
    }

    const FILES: [(&str, &[u8]); 3] = [("a.txt", b"aaaaaaaa"), ("größer", b"b"), ("empty", b"")];

    fn small() -> Vec<u8> {
        let mut archive = Archive::new(Cursor::new(Vec::new()));
        for (name, bytes) in FILES {
            add(&mut archive, name, bytes, bytes.len() as u64);
        }
        archive.finish().expect("an archive").into_inner()
    }

    /// Python's reader, which is not ours: it checks sums, and what it has read is printed.
    fn seen_by_python(path: &std::path::Path) -> String {
        let script = "import sys, zipfile\n\
            z = zipfile.ZipFile(sys.argv[1])\n\
            assert z.testzip() is None\n\
            print([(i.filename, i.file_size, i.header_offset) for i in z.infolist()])";
        let mut python = Command::new("python3");
        let output = python.args(["-c", script]).arg(path).output();
        let output = output.expect("python3 is there");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        String::from_utf8(output.stdout).expect("text")
    }

    #[test]
    fn an_archive_is_byte_for_byte_that_of_the_zip_crate() {
        let mut other = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, bytes) in FILES {
            let options = SimpleFileOptions::default();
            other.start_file(name, options).expect("a file");
            other.write_all(bytes).expect("room");
        }
        let other = other.finish().expect("an archive").into_inner();
        assert_eq!(small(), other);
    }

    #[test]
    fn a_stream_of_an_archive_has_the_sizes_before_the_data() {
        let archive = small();
        let mut stream = &archive[..];
        for (name, bytes) in FILES {
            let file = read_zipfile_from_stream(&mut stream).expect("a header");
            let mut file = file.expect("a file");
            assert_eq!(file.name().expect("a name"), name);
            assert_eq!(file.size(), bytes.len() as u64);
            let mut content = Vec::new();
            file.read_to_end(&mut content).expect("its sum");
            assert_eq!(content, bytes);
        }
    }

    /// With a hole of 5 GB before the second file, which takes no room on the disk.
    #[test]
    fn files_and_places_beyond_32_bits_are_read() {
        const FAR: u64 = 5_000_000_000;
        let file = tempfile::NamedTempFile::new().expect("a file");
        let mut archive = Archive::new(file.as_file());
        add(&mut archive, "near", b"aaaa", LARGE);
        archive.at = archive.writer.seek(SeekFrom::Start(FAR)).expect("far");
        add(&mut archive, "far", b"bbbb", 4);
        add(&mut archive, "far and large", b"cccc", LARGE);
        archive.finish().expect("an archive");
        let mut read = ZipArchive::new(file.reopen().expect("it is there")).expect("an archive");
        for (at, bytes) in [b"aaaa", b"bbbb", b"cccc"].iter().enumerate() {
            let mut content = Vec::new();
            let mut file = read.by_index(at).expect("a file");
            file.read_to_end(&mut content).expect("its sum");
            assert_eq!(content, *bytes);
        }
        let seen = seen_by_python(file.path());
        assert!(
            seen.contains("('near', 4, 0), ('far', 4, 5000000000)"),
            "{seen}"
        );
    }

    #[test]
    fn an_archive_of_more_files_than_16_bits_count_has_all_of_them() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let mut archive = Archive::new(file.as_file());
        let (deflated, crc) = deflated(b"a");
        for number in 0..=u32::from(u16::MAX) {
            archive.start(number.to_string(), 1).expect("a file");
            archive.write(&deflated, &crc, 1).expect("room");
            archive.end().expect("its end");
        }
        archive.finish().expect("an archive");
        let read = ZipArchive::new(file.reopen().expect("it is there")).expect("an archive");
        assert_eq!(read.len(), 1 << 16);
        assert!(seen_by_python(file.path()).contains("('65535', 1, "));
    }

    #[test]
    fn a_file_with_sizes_of_32_bits_that_grows_beyond_them_is_refused() {
        let mut archive = Archive::new(Cursor::new(Vec::new()));
        archive.start("a".into(), LARGE - 1).expect("a file");
        archive.write(b"", &Crc::new(), WIDE).expect("room");
        assert!(archive.end().is_err());
    }
}
