//! A section of a step that blocks: it reads stored files and writes scratch files with the traits of `std::io`, on a
//! thread of its own, and stops with its step. Must not decide what becomes of the step.

use crate::cancel::CancelToken;
use crate::context::{ObjectsContext, StepContext};
use crate::error::{Classify, StepError, StepResult};
use crate::progress::Meter;
use crate::scratch::ScratchDraft;
use counterstep_contracts::StoredFile;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::runtime::Handle;
use tokio_util::sync::{CancellationToken, DropGuard};

impl StepContext {
    /// Runs code that blocks, such as an encoder, on a thread of its own, and waits for its result.
    ///
    /// The section stops with its step: once the step is cancelled, is dropped at its time limit or has lost its lease,
    /// every read and write of the section is an error, a read that waits included. So code that only hands on the errors
    /// of `std::io` needs no check of its own; code that computes for long between two calls asks
    /// [`Blocking::go_on`]. A panic of the section is one of the step.
    ///
    /// # Errors
    /// Those of the section; where it fails after the step was cancelled, cancelled.
    ///
    /// # Panics
    /// Where the section panics, and outside of a Tokio runtime.
    pub async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Blocking) -> StepResult<T> + Send + 'static,
    ) -> StepResult<T> {
        let dropped = CancellationToken::new();
        let section = Blocking {
            objects: self.objects.clone(),
            meter: self.meter(),
            stop: Stop {
                cancel: self.cancel().clone(),
                dropped: dropped.clone(),
                told: Arc::default(),
            },
            runtime: Handle::current(),
            read: Arc::default(),
            expected: AtomicU64::new(0),
        };
        // Dropped with this future.
        let _stops: DropGuard = dropped.drop_guard();
        let ended = tokio::task::spawn_blocking(move || work(&section)).await;
        match ended {
            Ok(Err(_)) if self.cancel().is_cancelled() => Err(StepError::cancelled()),
            Ok(result) => result,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime shuts down.
                Err(error) => Err(StepError::transient(error)),
            },
        }
    }
}

/// When a section stops.
#[derive(Debug, Clone)]
struct Stop {
    cancel: CancelToken,
    dropped: CancellationToken,
    /// Whether the section got the error that ends it.
    told: Arc<AtomicBool>,
}

impl Stop {
    fn check(&self) -> io::Result<()> {
        if self.cancel.is_cancelled() || self.dropped.is_cancelled() {
            return Err(self.error());
        }
        Ok(())
    }

    async fn stopped(&self) -> io::Error {
        tokio::select! {
            biased;
            _ = self.cancel.cancelled() => {}
            () = self.dropped.cancelled() => {}
        }
        self.error()
    }

    fn error(&self) -> io::Error {
        self.told.store(true, Ordering::Relaxed);
        io::Error::other("the step has stopped")
    }

    /// For what is written from now on: an error once, and nothing is kept afterwards.
    fn check_of<W>(&self, file: &mut Quiet<W>) -> io::Result<()> {
        // The error that ended a read ends the writer too: an archive writer that is dropped then writes on.
        file.broken |= self.told.load(Ordering::Relaxed);
        if file.broken {
            return Ok(());
        }
        let stopped = self.check();
        file.broken = stopped.is_err();
        stopped
    }
}

/// What a [section that blocks](StepContext::blocking) gets.
#[derive(Debug)]
pub struct Blocking {
    objects: Arc<ObjectsContext>,
    meter: Meter,
    stop: Stop,
    runtime: Handle,
    /// Bytes, of all readers.
    read: Arc<AtomicU64>,
    /// Bytes; 0: not known.
    expected: AtomicU64,
}

impl Blocking {
    /// A stored file of this task, from its beginning. It is read piece by piece and never held as a whole, and its last
    /// piece is an error where size or SHA-256 are not those of the file. What is read counts as the step's progress.
    ///
    /// # Errors
    /// As [`ObjectsContext::read`].
    pub fn reader(&self, file: &StoredFile) -> StepResult<SourceReader> {
        let opened = self.runtime.block_on(async {
            tokio::select! {
                biased;
                error = self.stop.stopped() => Err(StepError::transient(error)),
                opened = self.objects.reader(file) => opened,
            }
        });
        Ok(SourceReader {
            source: opened?,
            meter: self.meter.clone(),
            stop: self.stop.clone(),
            runtime: self.runtime.clone(),
            read: self.read.clone(),
            expected: self.expected.load(Ordering::Relaxed),
        })
    }

    /// How many bytes the readers opened from now on will read in all: the total of the step's progress.
    pub fn expect(&self, bytes: u64) {
        self.expected.store(bytes, Ordering::Relaxed);
    }

    /// A writer to this draft of a scratch file.
    ///
    /// # Errors
    /// Transient where the file cannot be opened.
    pub fn writer(&self, draft: ScratchDraft) -> StepResult<ScratchWriter> {
        let file = File::create(draft.path()).transient("opening the scratch file")?;
        Ok(ScratchWriter {
            file: Quiet::new(file),
            draft,
            stop: self.stop.clone(),
        })
    }

    /// For loops: an error once the step has stopped.
    ///
    /// # Errors
    /// Cancelled; hand it on with `?`.
    pub fn go_on(&self) -> StepResult<()> {
        self.stop.check().map_err(|_| StepError::cancelled())
    }
}

/// Reads a stored file on a thread that may block.
pub struct SourceReader {
    source: Pin<Box<dyn AsyncRead + Send>>,
    meter: Meter,
    stop: Stop,
    runtime: Handle,
    read: Arc<AtomicU64>,
    expected: u64,
}

impl std::fmt::Debug for SourceReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SourceReader").finish_non_exhaustive()
    }
}

impl Read for SourceReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Self {
            source,
            stop,
            runtime,
            ..
        } = self;
        let read = runtime.block_on(async {
            tokio::select! {
                biased;
                error = stop.stopped() => Err(error),
                read = source.read(buffer) => read,
            }
        })?;
        let done = self.read.fetch_add(read as u64, Ordering::Relaxed) + read as u64;
        self.meter.tell(done, self.expected);
        Ok(read)
    }
}

/// Writes a scratch file on a thread that may block. [Finish](Self::finish) it and seal the draft; dropped before that, the
/// file is removed.
///
/// Archive writers that are dropped half-way finish their archive, and where that fails they write to the process's
/// standard error, in the middle of the log. So after its first error the writer accepts everything and keeps nothing.
#[derive(Debug)]
pub struct ScratchWriter {
    file: Quiet<File>,
    draft: ScratchDraft,
    stop: Stop,
}

impl ScratchWriter {
    /// The draft with all that was written.
    ///
    /// # Errors
    /// Transient where a write has failed.
    pub fn finish(mut self) -> StepResult<ScratchDraft> {
        self.flush().transient("writing the scratch file")?;
        if self.file.broken {
            return Err(StepError::transient("writing the scratch file has failed"));
        }
        Ok(self.draft)
    }
}

impl Write for ScratchWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stop.check_of(&mut self.file)?;
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stop.check_of(&mut self.file)?;
        self.file.flush()
    }
}

impl Seek for ScratchWriter {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

/// A file that only pretends after its first error.
#[derive(Debug)]
struct Quiet<W> {
    file: W,
    at: u64,
    end: u64,
    broken: bool,
}

impl<W> Quiet<W> {
    /// Of an empty file.
    const fn new(file: W) -> Self {
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

impl<W: Write> Write for Quiet<W> {
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

impl<W: Seek> Seek for Quiet<W> {
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

    /// A disk with room for a number of bytes.
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

    #[test]
    fn a_section_gets_the_error_of_its_end_once_and_writes_nothing_afterwards() {
        let stop = Stop {
            cancel: CancelToken::new(),
            dropped: CancellationToken::new(),
            told: Arc::default(),
        };
        let mut file = Quiet::new(Full(Cursor::default(), 100));
        stop.check_of(&mut file).expect("its step is there");
        file.write_all(&[7; 8]).expect("there is room");
        stop.dropped.cancel();
        // As a read would get it.
        stop.check().expect_err("its step is gone");
        stop.check_of(&mut file).expect("the error is known");
        file.write_all(&[9; 8]).expect("it pretends");
        assert_eq!(file.file.0.into_inner(), [7; 8]);
        // Without a read, the writer is told.
        let unread = Stop {
            told: Arc::default(),
            ..stop
        };
        let mut file = Quiet::new(Full(Cursor::default(), 100));
        unread.check_of(&mut file).expect_err("its step is gone");
        unread.check_of(&mut file).expect("the error is known");
    }

    #[test]
    fn a_read_that_waits_for_ever_ends_with_its_step() {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let stop = Stop {
            cancel: CancelToken::new(),
            dropped: CancellationToken::new(),
            told: Arc::default(),
        };
        // The other end is open, and says nothing.
        let (_open, silent) = tokio::io::duplex(8);
        let mut reader = SourceReader {
            source: Box::pin(silent),
            meter: Meter::default(),
            stop: stop.clone(),
            runtime: runtime.handle().clone(),
            read: Arc::default(),
            expected: 0,
        };
        let reads = std::thread::spawn(move || reader.read(&mut [0; 8]));
        stop.dropped.cancel();
        let error = reads
            .join()
            .expect("no panic")
            .expect_err("its step is gone");
        assert_eq!(error.to_string(), "the step has stopped");
    }

    #[test]
    fn after_a_full_disk_a_writer_has_no_second_error_and_keeps_nothing() {
        let mut file = Quiet::new(Full(Cursor::default(), 10));
        file.write_all(&[7; 8]).expect("there is room");
        let error = file.write_all(&[7; 8]).expect_err("there is none");
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        // As an archive writer ends its archive: it goes back to a header, and appends a directory.
        file.write_all(&[7; 8]).expect("it pretends");
        assert_eq!(file.seek(SeekFrom::Start(2)).expect("it pretends"), 2);
        file.write_all(&[9; 2]).expect("it pretends");
        assert_eq!(file.seek(SeekFrom::End(0)).expect("it pretends"), 16);
        file.flush().expect("it pretends");
        assert_eq!(file.file.0.into_inner(), [7; 8]);
    }
}
