//! The sources of an archive, for a blocking thread. Such a thread is not stopped when its step is
//! dropped: reading ends with an error then, or the thread would compress to the end of the file
//! beside the next heavy step.

use counterstep_steps::{StepContext, StepResult, StoredFile, StoredFiles};
use std::io;
use std::sync::{Arc, Weak};
use tokio_util::io::{InspectReader, SyncIoBridge};

/// What a step reads one after another. It goes with the step, at a time limit or on a cancel.
pub(super) struct Sources<'a> {
    ctx: &'a StepContext,
    total: u64,
    opened: u64,
    awaited: Arc<()>,
}

impl<'a> Sources<'a> {
    pub(super) fn new(ctx: &'a StepContext, files: &StoredFiles) -> Self {
        Self {
            ctx,
            total: files.iter().map(|file| file.size_bytes).sum(),
            opened: 0,
            awaited: Arc::new(()),
        }
    }

    /// The next one; what is read of it counts as the step's progress.
    pub(super) async fn open(
        &mut self,
        file: &StoredFile,
    ) -> StepResult<impl io::Read + Send + use<>> {
        let (meter, total, mut read) = (self.ctx.meter(), self.total, self.opened);
        let reader = self.ctx.objects().reader(file).await?;
        self.opened += file.size_bytes;
        let watched = InspectReader::new(reader, move |bytes| {
            read += bytes.len() as u64;
            meter.tell(read, total);
        });
        Ok(WhileAwaited {
            inner: SyncIoBridge::new(watched),
            step: Arc::downgrade(&self.awaited),
        })
    }
}

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
