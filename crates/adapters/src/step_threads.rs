//! Threads on which the code of steps runs and which it may block. The engine's own threads are
//! others.
//!
//! A runtime of Tokio cannot be that: a task that was woken on a worker thread stays with it, and
//! so may the driver of its timers and sockets, while the code before it blocks. Here every woken
//! step stands in one line, a thread takes one at a time, and where threads are blocked and others
//! wait, there are more threads. Timers and sockets are driven by a Tokio runtime that runs nothing
//! else, unless a step spawns onto it.
//!
//! Must not know what the code does, nor how long it may.

use async_task::Runnable;
use counterstep_kernel::ports::{CodeLabel, StepRunner};
use futures::future::BoxFuture;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Handle, Runtime};

/// A thread that has run the same piece of code for longer than this counts as blocked, and another takes its
/// place.
const BLOCKED_AFTER: Duration = Duration::from_millis(20);

/// After this time the log names the code that blocks a thread.
const NAMED_AFTER: Duration = Duration::from_secs(1);

/// How long an idle thread is kept.
const IDLE_FOR: Duration = Duration::from_secs(10);

/// Threads for the code of steps. Dropped, it takes no more code, and leaves blocked threads to the
/// end of the process.
#[derive(Debug)]
pub struct StepThreads {
    pool: Arc<Pool>,
    /// `Some` until it is dropped.
    runtime: Option<Runtime>,
}

#[derive(Debug)]
struct Pool {
    /// Number of threads that are not blocked.
    free_threads: usize,
    handle: Handle,
    state: Mutex<PoolState>,
    /// Code stands in the line, or it is closed.
    ready: Condvar,
    /// A thread has taken code, or the line is closed.
    busy: Condvar,
}

#[derive(Debug, Default)]
struct PoolState {
    line: VecDeque<Runnable<CodeLabel>>,
    threads: usize,
    idle: usize,
    /// What each busy thread is at, by its number.
    at: HashMap<u64, At>,
    next_number: u64,
    closed: bool,
}

#[derive(Debug)]
struct At {
    label: CodeLabel,
    since: Instant,
    named: bool,
}

impl StepThreads {
    /// With at least `free_threads` that are not blocked.
    ///
    /// # Errors
    /// When the machine gives no threads.
    pub fn start(free_threads: usize) -> std::io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .thread_name("step-io")
            .enable_all()
            .build()?;
        let pool = Arc::new(Pool {
            free_threads: free_threads.max(1),
            handle: runtime.handle().clone(),
            state: Mutex::default(),
            ready: Condvar::new(),
            busy: Condvar::new(),
        });
        let watched = pool.clone();
        std::thread::Builder::new()
            .name("step-watch".to_owned())
            .spawn(move || watched.watch())?;
        let mut state = pool.lock();
        for _ in 0..pool.free_threads {
            pool.add_thread(&mut state)?;
        }
        drop(state);
        Ok(Self {
            pool,
            runtime: Some(runtime),
        })
    }
}

impl Drop for StepThreads {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        state.closed = true;
        // Dropped without the lock: with each goes code of an author.
        let line = std::mem::take(&mut state.line);
        drop(state);
        drop(line);
        self.pool.ready.notify_all();
        self.pool.busy.notify_all();
        // Waiting for it is not possible inside another runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl StepRunner for StepThreads {
    fn start(&self, label: CodeLabel, code: BoxFuture<'static, ()>) -> BoxFuture<'static, ()> {
        let pool = self.pool.clone();
        let schedule = move |runnable| pool.push(runnable);
        let (runnable, task) = async_task::Builder::new()
            .metadata(label)
            .spawn(move |_| code, schedule);
        runnable.schedule();
        // Also where the code was dropped before its end: the threads are going away.
        let ended = task.fallible();
        Box::pin(async move {
            let _ = ended.await;
        })
    }
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock()
    }

    fn push(&self, runnable: Runnable<CodeLabel>) {
        let mut state = self.lock();
        if state.closed {
            drop(state);
            return drop(runnable);
        }
        state.line.push_back(runnable);
        let wake = state.idle > 0;
        drop(state);
        if wake {
            self.ready.notify_one();
        }
    }

    fn add_thread(self: &Arc<Self>, state: &mut PoolState) -> std::io::Result<()> {
        let (pool, number) = (self.clone(), state.next_number);
        std::thread::Builder::new()
            .name("step".to_owned())
            .spawn(move || pool.work(number))?;
        state.next_number += 1;
        state.threads += 1;
        Ok(())
    }

    /// A thread's life.
    fn work(&self, number: u64) {
        let _entered = self.handle.enter();
        while let Some(runnable) = self.take(number) {
            // The kernel catches what the code panics with; this is for what panics while it is
            // dropped.
            if catch_unwind(AssertUnwindSafe(|| runnable.run())).is_err() {
                tracing::error!("the code of a step panicked while it was dropped");
            }
            let mut state = self.lock();
            let was = state.at.remove(&number);
            drop(state);
            if let Some(At {
                label: CodeLabel {
                    task, step, part, ..
                },
                since,
                ..
            }) = was.filter(|was| was.named)
            {
                let blocked_ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
                tracing::warn!(%task, step, part, blocked_ms, "a step that blocked its thread has let go of it");
            }
        }
    }

    /// The next piece of code. `None`: the thread is not needed any more.
    fn take(&self, number: u64) -> Option<Runnable<CodeLabel>> {
        let mut state = self.lock();
        loop {
            if let Some(runnable) = state.line.pop_front() {
                let at = At {
                    label: runnable.metadata().clone(),
                    since: Instant::now(),
                    named: false,
                };
                if state.at.is_empty() {
                    self.busy.notify_one();
                }
                state.at.insert(number, at);
                return Some(runnable);
            }
            let surplus = state.threads > self.free_threads;
            if state.closed {
                state.threads -= 1;
                return None;
            }
            state.idle += 1;
            let waited = self.ready.wait_for(&mut state, IDLE_FOR);
            state.idle -= 1;
            if waited.timed_out()
                && surplus
                && state.line.is_empty()
                && state.idle >= self.free_threads
            {
                state.threads -= 1;
                return None;
            }
        }
    }

    /// Looks after the threads: gives the line others where they are blocked, and names the code
    /// that blocks them.
    // Lines of the log are written without the lock, which every step that wakes up takes: the
    // log's reader may be slow.
    fn watch(self: Arc<Self>) {
        let mut state = self.lock();
        let mut has_too_few = false;
        while !state.closed {
            if state.at.is_empty() {
                self.busy.wait(&mut state);
                continue;
            }
            self.busy
                .wait_while_for(&mut state, |state| !state.closed, BLOCKED_AFTER);
            let blocked = state
                .at
                .values()
                .filter(|at| at.since.elapsed() >= BLOCKED_AFTER)
                .count();
            let mut failed = None;
            if !state.line.is_empty() && state.idle == 0 {
                // Twice as many while they run out: a line of steps that block must not grow by a
                // few threads a look.
                let wanted = (blocked + self.free_threads)
                    .max(blocked * 2)
                    .min(blocked + state.line.len());
                for _ in state.threads..wanted {
                    if let Err(error) = self.add_thread(&mut state) {
                        failed = Some((error, state.threads));
                        break;
                    }
                }
            }
            let late = state
                .at
                .values_mut()
                .filter(|at| !at.named && at.since.elapsed() >= NAMED_AFTER);
            let blocking: Vec<CodeLabel> = late
                .map(|at| {
                    at.named = true;
                    at.label.clone()
                })
                .collect();
            drop(state);
            for CodeLabel {
                task, step, part, ..
            } in blocking
            {
                tracing::warn!(
                    %task,
                    step,
                    part,
                    "a step blocks its thread: await what it waits for, and compute in `spawn_blocking`"
                );
            }
            // Once, and not at every look.
            if let Some((error, threads)) = failed.as_ref().filter(|_| !has_too_few) {
                tracing::error!(%error, threads, "no more threads for steps: others have to wait");
            }
            has_too_few = failed.is_some();
            state = self.lock();
        }
    }
}
