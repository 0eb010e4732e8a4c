//! Files deflated in blocks, on several threads. The blocks of a file, one behind the other, are one stream, and the same with any
//! number of threads. Must not know where the bytes come from, and where they go.

use counterstep_steps::prelude::*;
use flate2::{Compress, CompressError, Compression, Crc, FlushCompress, Status};
use parking_lot::Mutex;
use std::io::Read;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// Bytes of a block. Each begins without what came before it, which costs a ZIP of text less than a hundredth of its size.
pub(super) const BLOCK: usize = 512 * 1024;

/// Beyond this, reading and writing are what takes the time, and memory grows with the threads.
const MOST_THREADS: usize = 8;

/// A deflated block.
pub(super) struct Block {
    pub(super) bytes: Vec<u8>,
    /// Of what was deflated.
    pub(super) crc: Crc,
    /// Bytes that were deflated.
    pub(super) size: u64,
    /// Nothing of its file is behind it.
    pub(super) is_last: bool,
}

/// A block to be deflated, and who waits for it.
struct Work {
    bytes: Vec<u8>,
    is_last: bool,
    done: SyncSender<Result<Block, CompressError>>,
}

/// A block that is being deflated, in its order, or why there is none.
type Ordered = StepResult<Receiver<Result<Block, CompressError>>>;

/// The blocks of all files, in their order.
pub(super) struct Blocks(Receiver<Ordered>);

impl Blocks {
    /// The next one.
    pub(super) fn next(&mut self) -> StepResult<Block> {
        let next = self.0.recv().permanent("all blocks were taken")??;
        let block = next.recv().permanent("a block was given up")?;
        block.permanent("deflating a block")
    }
}

/// Deflates these files, on a thread for each processor, while `take` takes their blocks. It may end before it has all.
pub(super) fn deflate<R: Read, T>(
    files: impl Iterator<Item = StepResult<R>> + Send,
    take: impl FnOnce(&mut Blocks) -> T,
) -> T {
    let threads = thread::available_parallelism().map_or(1, |all| all.get().min(MOST_THREADS));
    let (to_threads, work) = sync_channel(threads);
    let (in_order, blocks) = sync_channel(threads);
    let work = Mutex::new(work);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| deflate_each(&work));
        }
        scope.spawn(move || {
            if let Err(error) = read_all(files, &in_order, &to_threads) {
                // Where no more are taken, the step has failed already.
                let _ = in_order.send(Err(error));
            }
        });
        let mut blocks = Blocks(blocks);
        take(&mut blocks)
        // Dropped, they end the thread that reads, and its end ends the others.
    })
}

/// Reads all of them, or until no more are taken.
fn read_all<R: Read>(
    files: impl Iterator<Item = StepResult<R>>,
    in_order: &SyncSender<Ordered>,
    to_threads: &SyncSender<Work>,
) -> StepResult<()> {
    for file in files {
        let mut file = file?;
        let mut is_last = false;
        while !is_last {
            let mut bytes = Vec::with_capacity(BLOCK);
            let mut block = file.by_ref().take(BLOCK as u64);
            block.read_to_end(&mut bytes).transient("reading a file")?;
            is_last = bytes.len() < BLOCK;
            let (done, block) = sync_channel(1);
            let work = Work {
                bytes,
                is_last,
                done,
            };
            if in_order.send(Ok(block)).is_err() || to_threads.send(work).is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
}

fn deflate_each(work: &Mutex<Receiver<Work>>) {
    let mut compress = Compress::new(Compression::default(), false);
    loop {
        let next = work.lock().recv();
        let Ok(work) = next else { return };
        let block = block(&mut compress, &work);
        // Where the step has failed, it is not waited for.
        let _ = work.done.send(block);
    }
}

fn block(compress: &mut Compress, work: &Work) -> Result<Block, CompressError> {
    compress.reset();
    // A block that is not the last ends at a whole byte.
    let flush = match work.is_last {
        true => FlushCompress::Finish,
        false => FlushCompress::Sync,
    };
    let mut bytes = Vec::with_capacity(work.bytes.len() / 2 + 64);
    loop {
        let read = usize::try_from(compress.total_in()).unwrap_or(usize::MAX);
        let rest = work.bytes.get(read..).unwrap_or_default();
        let status = compress.compress_vec(rest, &mut bytes, flush)?;
        // Where room is left, all was written.
        if status == Status::StreamEnd || !work.is_last && bytes.len() < bytes.capacity() {
            break;
        }
        bytes.reserve(BLOCK / 4);
    }
    let mut crc = Crc::new();
    crc.update(&work.bytes);
    Ok(Block {
        bytes,
        crc,
        size: work.bytes.len() as u64,
        is_last: work.is_last,
    })
}
