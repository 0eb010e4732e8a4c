//! Files deflated in blocks on several threads. The blocks of a file, one behind the other, are one stream, and the same with
//! any number of threads. Must not know where the bytes come from and where they go.

use crate::error::{Classify, StepError, StepResult};
use flate2::{Compress, CompressError, Compression, Crc, FlushCompress, Status};
use parking_lot::{Condvar, Mutex};
use std::io::Read;
use std::iter::Fuse;
use std::num::NonZero;
use std::panic::{self, AssertUnwindSafe};
use std::thread;

/// Bytes of a block. Each begins without what came before it, which makes an archive of text 1 % larger.
pub(super) const BLOCK: usize = 256 * 1024;

/// Beyond this, reading is what takes the time, and memory grows with the threads: each has 0.8 MiB.
const MOST_THREADS: usize = 16;

/// Threads of all sections beside those of the sections themselves. At most one for each core: a process runs a heavy step on
/// each core, and threads beyond that would take memory and no time off.
static BESIDE: Mutex<usize> = Mutex::new(0);

/// A block, and what it is deflated with. The thread that calls makes all of them: a thread that allocates much takes a part
/// of the memory for itself.
pub(super) struct Block {
    read: Vec<u8>,
    compress: Compress,
    pub(super) deflated: Vec<u8>,
    /// Of what was read.
    pub(super) crc: Crc,
    /// The first of its file.
    pub(super) is_first: bool,
    /// The last of its file; may be empty.
    pub(super) is_last: bool,
}

impl Block {
    fn new() -> Self {
        Self {
            read: Vec::with_capacity(BLOCK),
            compress: Compress::new(Compression::default(), false),
            // What does not compress grows by less.
            deflated: Vec::with_capacity(BLOCK + BLOCK / 64),
            crc: Crc::new(),
            is_first: false,
            is_last: false,
        }
    }

    /// Bytes that were read.
    pub(super) fn size(&self) -> u64 {
        self.read.len() as u64
    }

    fn deflate(&mut self) -> Result<(), CompressError> {
        self.compress.reset();
        self.deflated.clear();
        // A block that is not the last ends at a whole byte.
        let flush = match self.is_last {
            true => FlushCompress::Finish,
            false => FlushCompress::Sync,
        };
        loop {
            let done = usize::try_from(self.compress.total_in()).unwrap_or(usize::MAX);
            let rest = self.read.get(done..).unwrap_or_default();
            let status = self
                .compress
                .compress_vec(rest, &mut self.deflated, flush)?;
            let has_room = self.deflated.len() < self.deflated.capacity();
            // Where room is left, all was written.
            if status == Status::StreamEnd || !self.is_last && has_room {
                break;
            }
            self.deflated.reserve(BLOCK / 4);
        }
        self.crc.reset();
        self.crc.update(&self.read);
        Ok(())
    }
}

/// Deflates files of this many bytes in all. `take` gets their blocks one by one, in their order. The first error ends it, and
/// so does a panic of any thread, which goes on in the one that calls.
pub(super) fn deflate<R: Read + Send>(
    files: impl Iterator<Item = StepResult<R>> + Send,
    bytes: u64,
    take: impl FnMut(&Block) -> StepResult<()> + Send,
) -> StepResult<()> {
    let blocks = usize::try_from(bytes / BLOCK as u64).unwrap_or(usize::MAX);
    let beside = Beside::new(blocks.min(MOST_THREADS - 1));
    deflate_on(beside.0, files, take)
}

/// The same with this many threads beside that which calls.
pub(super) fn deflate_on<R: Read + Send>(
    beside: usize,
    files: impl Iterator<Item = StepResult<R>> + Send,
    take: impl FnMut(&Block) -> StepResult<()> + Send,
) -> StepResult<()> {
    let work = Work {
        source: Mutex::new(Source {
            files: files.fuse(),
            file: None,
            next: 0,
        }),
        sink: Mutex::new(Sink {
            take,
            next: 0,
            error: None,
        }),
        turn: Condvar::new(),
    };
    let mut first = Block::new();
    let mut others: Vec<_> = (0..beside).map(|_| Block::new()).collect();
    thread::scope(|scope| {
        let work = &work;
        // Where no thread is to be had, the others do it.
        let start = |block| {
            let thread = thread::Builder::new().name("deflate".into());
            thread.spawn_scoped(scope, move || work.run(block)).ok()
        };
        let threads: Vec<_> = others.iter_mut().map_while(start).collect();
        work.run(&mut first);
        for thread in threads {
            if let Err(panic) = thread.join() {
                panic::resume_unwind(panic);
            }
        }
    });
    work.sink.into_inner().error.map_or(Ok(()), Err)
}

/// A number of threads beside that of the section.
pub(super) struct Beside(pub(super) usize);

impl Beside {
    /// As many as are wanted and not taken.
    pub(super) fn new(wanted: usize) -> Self {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let mut taken = BESIDE.lock();
        let free = wanted.min(cores.saturating_sub(*taken));
        *taken += free;
        Self(free)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        *BESIDE.lock() -= self.0;
    }
}

/// What the threads share. Each reads a block, deflates it, and hands it on once its turn has come. With a thread more than
/// there are cores, one that waits for its turn or for the disk leaves no core idle.
struct Work<S, F> {
    source: Mutex<S>,
    sink: Mutex<Sink<F>>,
    /// The next block is another one, or there was an error.
    turn: Condvar,
}

struct Source<I, R> {
    files: Fuse<I>,
    /// The one that is being read.
    file: Option<R>,
    /// Number of the next block.
    next: u64,
}

struct Sink<F> {
    take: F,
    /// Number of the block whose turn it is.
    next: u64,
    error: Option<StepError>,
}

impl<R: Read, I: Iterator<Item = StepResult<R>>> Source<I, R> {
    /// The number of the block that was read; none: all were.
    fn read(&mut self, block: &mut Block) -> StepResult<Option<u64>> {
        // Counted first: after a panic the turn never comes to what others still read.
        let number = self.next;
        self.next += 1;
        block.is_first = self.file.is_none();
        let file = match &mut self.file {
            Some(file) => file,
            none => match self.files.next() {
                Some(file) => none.insert(file?),
                None => return Ok(None),
            },
        };
        block.read.clear();
        let mut part = file.by_ref().take(BLOCK as u64);
        let read = part.read_to_end(&mut block.read);
        block.is_last = read.transient("reading a file")? < BLOCK;
        if block.is_last {
            self.file = None;
        }
        Ok(Some(number))
    }
}

impl<R, I, F> Work<Source<I, R>, F>
where
    R: Read,
    I: Iterator<Item = StepResult<R>>,
    F: FnMut(&Block) -> StepResult<()>,
{
    /// Until there is none, or there was an error.
    fn run(&self, block: &mut Block) {
        let ended = panic::catch_unwind(AssertUnwindSafe(|| self.deflate_each(block)));
        let (error, panic) = match ended {
            Ok(Ok(())) => return,
            Ok(Err(error)) => (error, None),
            Err(panic) => (StepError::permanent("a thread panicked"), Some(panic)),
        };
        self.sink.lock().error.get_or_insert(error);
        self.turn.notify_all();
        if let Some(panic) = panic {
            panic::resume_unwind(panic);
        }
    }

    fn deflate_each(&self, block: &mut Block) -> StepResult<()> {
        loop {
            let read = self.source.lock().read(block)?;
            let Some(number) = read else { return Ok(()) };
            block.deflate().permanent("deflating a block")?;
            let mut sink = self.sink.lock();
            self.turn.wait_while(&mut sink, |sink| {
                sink.next != number && sink.error.is_none()
            });
            if sink.error.is_some() {
                return Ok(());
            }
            (sink.take)(block)?;
            sink.next += 1;
            drop(sink);
            self.turn.notify_all();
        }
    }
}
