//! The side of the step: reads what is to be run, runs it with a context whose ports lead back over the
//! socket, and tells what came of it.

use super::frame::{self, Done, Down, Id, LogSettings, Order, Up};
use super::memory;
use super::parent::prepare;
use super::protection;
use super::remote::{RemoteObjects, RemoteServices};
use super::role::{MARK, Role, take_socket};
use super::supervisor;
use crate::folder::FolderScratch;
use bytes::Bytes;
use counterstep_contracts::LogLevel;
use counterstep_kernel::ports::CodePart;
use counterstep_steps::error::CaughtPanic;
use counterstep_steps::log::{LogSink, TaskLog};
use counterstep_steps::output_limit::OutputLimit;
use counterstep_steps::progress::{Meter, ProgressSink};
use counterstep_steps::task::{Inputs, Registry, Run, StepCode, TaskType};
use counterstep_steps::times::TimeLeft;
use counterstep_steps::{CancelToken, StepContext, StepError, StepResult};
use futures::FutureExt;
use parking_lot::{Mutex, MutexGuard};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use serde_json::Value;
use std::collections::HashMap;
use std::io;
use std::os::unix::net::UnixStream;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tracing::Instrument;

/// Pause between two messages of progress, and between two heartbeats.
const PAUSE: Duration = Duration::from_millis(100);

/// Where this process was started for a step: runs that, or another process with it, and gives the exit code. `None`
/// in any other process, which may start such processes from now on. To be called first in `main`, after
/// what the program provides to its steps was made.
pub fn run_if_asked(registry: &Registry, start_log: impl FnOnce(&LogSettings)) -> Option<u8> {
    let Some(role) = std::env::var_os(MARK) else {
        prepare();
        return None;
    };
    let role = serde_json::from_str(role.to_str().unwrap_or_default());
    let ended = match role {
        Ok(Role::Supervisor(plan)) => supervisor::run(plan),
        Ok(Role::Step {
            supervisor,
            is_dumpable,
        }) => run(registry, supervisor, is_dumpable, start_log),
        Err(error) => Err(error.into()),
    };
    match ended {
        Ok(code) => Some(code),
        Err(error) => {
            let _ = io::Write::write_fmt(
                &mut io::stderr(),
                format_args!("the process of a step: {error}\n"),
            );
            Some(1)
        }
    }
}

fn run(
    registry: &Registry,
    supervisor: i32,
    is_dumpable: bool,
    start_log: impl FnOnce(&LogSettings),
) -> io::Result<u8> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have gone before that was set.
    if getppid() != Pid::from_raw(supervisor) {
        return Err(io::Error::other("the process that has started it is gone"));
    }
    let socket = take_socket()?;
    let mut read = socket.try_clone()?;
    let process = std::process::id();
    frame::write_blocking(&mut &socket, &Up::Began { process }, &[])?;
    let order = match frame::read_blocking(&mut read)? {
        Some((Down::Order(order), _)) => *order,
        Some(_) => {
            return Err(io::Error::other(
                "the first message is not the order of a step",
            ));
        }
        None => return Err(io::Error::other("the process that has started it is gone")),
    };
    // Not before: the host has opened what it reads of it.
    if !is_dumpable {
        protection::hide_memory()?;
    }
    start_log(&order.log);
    let line = Arc::new(Line::new(socket));
    let reads = line.clone();
    std::thread::Builder::new()
        .name("step-line".to_owned())
        .spawn(move || reads.read(read))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let done = runtime.block_on(carry_out(registry.clone(), order, line.clone()));
    line.tell(&Up::Done(Box::new(done)), &[])?;
    // What the code has left running ends with the process.
    runtime.shutdown_background();
    Ok(0)
}

/// The socket, and who waits for what comes over it.
#[derive(Debug)]
pub(super) struct Line {
    write: Mutex<UnixStream>,
    routes: Mutex<HashMap<Id, UnboundedSender<(Down, Bytes)>>>,
    next: AtomicU64,
    cancel: CancelToken,
}

impl Line {
    pub(super) fn new(socket: UnixStream) -> Self {
        Self {
            write: Mutex::new(socket),
            routes: Mutex::default(),
            next: AtomicU64::new(1),
            cancel: CancelToken::new(),
        }
    }

    /// Writes at once: what the code has said is not lost with it.
    pub(super) fn tell(&self, message: &Up, bytes: &[u8]) -> io::Result<()> {
        let mut write = self.write.lock();
        frame::write_blocking(&mut *write, message, bytes)
    }

    /// Hands on what comes, until the host has gone: then this process ends, and its supervisor ends all that the code has
    /// started.
    fn read(&self, mut from: UnixStream) {
        loop {
            match frame::read_blocking(&mut from) {
                Ok(Some((Down::Cancel(reason), _))) => self.cancel.cancel(reason),
                Ok(Some((reply, bytes))) => {
                    if let Some(route) =
                        id_of(&reply).and_then(|id| self.routes().get(&id).cloned())
                    {
                        let _ = route.send((reply, bytes));
                    }
                }
                Ok(None) | Err(_) => break,
            }
        }
        std::process::exit(1);
    }

    fn routes(&self) -> MutexGuard<'_, HashMap<Id, UnboundedSender<(Down, Bytes)>>> {
        self.routes.lock()
    }

    pub(super) fn request(self: &Arc<Self>) -> Request {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (route, replies) = unbounded_channel();
        self.routes().insert(id, route);
        Request {
            line: self.clone(),
            id,
            replies,
        }
    }
}

const fn id_of(reply: &Down) -> Option<Id> {
    match reply {
        Down::Order(_) | Down::Cancel(_) => None,
        Down::Wants { id }
        | Down::Stored { id, .. }
        | Down::Opened { id, .. }
        | Down::Chunk { id }
        | Down::End { id }
        | Down::Broke { id, .. }
        | Down::Deleted { id, .. }
        | Down::Answer { id, .. } => Some(*id),
    }
}

/// A request that is under way. Dropped, it is closed: what is left of it is dropped on the other side too.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) line: Arc<Line>,
    pub(super) id: Id,
    replies: UnboundedReceiver<(Down, Bytes)>,
}

impl Request {
    pub(super) async fn reply(&mut self) -> Option<(Down, Bytes)> {
        self.replies.recv().await
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.line.routes().remove(&self.id);
        // Where this cannot be written, the other side is gone, and all that it did for this one.
        let _ = self.line.tell(&Up::Close { id: self.id }, &[]);
    }
}

async fn carry_out(mut registry: Registry, order: Order, line: Arc<Line>) -> Done {
    let task_type = registry.get(&order.task_type, order.version);
    let failed = |error| Done {
        result: Err(error),
        sql: Vec::new(),
        sealed: Vec::new(),
        unsent: false,
    };
    let Some(task_type) = task_type.filter(|it| it.decl.definition_hash() == order.definition)
    else {
        return failed(StepError::permanent(
            "its process does not declare the task type that the step is of: declare the same types before \
             `run_if_asked` as after it",
        ));
    };
    let step = task_type.decl.steps[order.at].name;
    if let Err(error) = registry.make_states_of(&task_type, step).await {
        return failed(StepError::transient(error));
    }
    let scratch = match FolderScratch::open(&order.scratch) {
        Ok(scratch) => scratch,
        Err(error) => {
            return failed(StepError::transient(format_args!(
                "the scratch folder: {error}"
            )));
        }
    };
    let task = order.execution.task;
    scratch.know(task, order.known_scratch);
    let progress = RemoteProgress::start(line.clone());
    let until = Instant::now() + order.time_left.min(Duration::from_secs(10 * 365 * 86_400));
    let objects = Arc::new(RemoteObjects(line.clone()));
    let ours = Arc::new(scratch.clone());
    let context = StepContext::new(order.execution, line.cancel.clone(), objects, ours)
        .with_services(Arc::new(RemoteServices(line.clone())))
        .of_task(order.facts)
        .limited_by(TimeLeft::read_by(move || {
            until.saturating_duration_since(Instant::now())
        }))
        .measured_by(Meter::to(progress.clone()))
        .logged_by(TaskLog::to(Arc::new(RemoteLog(line.clone()))));
    let inputs = Inputs::new(order.request, order.outputs)
        .with_states(registry.states().clone())
        .within(OutputLimit(order.output_limit));
    // As late as can be: what the program itself needs is there.
    if let Some(bytes) = order.memory
        && let Err(error) = memory::limit(bytes)
    {
        tracing::warn!(%error, "the memory of the process could not be limited");
    }
    let span = span_of(&context, order.part);
    let code = AssertUnwindSafe(
        run_code(
            &task_type,
            order.at,
            order.part,
            &context,
            inputs,
            order.own_output,
        )
        .instrument(span),
    );
    let result = code.catch_unwind().await.unwrap_or_else(|panic| {
        Err(StepError::panicked(
            "the code",
            CaughtPanic::of(panic.as_ref()),
        ))
    });
    progress.flush();
    Done {
        result,
        sql: context.take_sql(),
        sealed: scratch.sealed_by(task, step),
        unsent: context.is_unsent(),
    }
}

/// The span of the kernel that names the execution in the log.
fn span_of(context: &StepContext, part: CodePart) -> tracing::Span {
    let execution = context.execution();
    let (task, step, attempt) = (execution.task, &*execution.step, execution.attempt);
    let (task_type, trace_id) = (context.task_type(), context.trace_id());
    let direction = execution.direction;
    match part {
        CodePart::Probe => tracing::error_span!(
            target: "counterstep_kernel::turn::probe",
            "probe", %task, task_type, step, %attempt, trace_id
        ),
        CodePart::Run | CodePart::Fallback | CodePart::Undo => tracing::error_span!(
            target: "counterstep_kernel::turn::attempt",
            "attempt", %task, task_type, step, %direction, %attempt, trace_id
        ),
    }
}

async fn run_code(
    task_type: &TaskType,
    at: usize,
    part: CodePart,
    context: &StepContext,
    inputs: Inputs,
    own_output: Option<Value>,
) -> StepResult<Value> {
    let code: StepCode = task_type.steps[at];
    let missing = || StepError::permanent("the step has no such function");
    match part {
        CodePart::Run => match code.run {
            Run::Custom(run) => run(context, &inputs).await,
            Run::BuiltIn(_) => Err(missing()),
        },
        CodePart::Fallback => code.fallback.ok_or_else(missing)?(context, &inputs).await,
        CodePart::Undo => {
            let undo = code.undo.ok_or_else(missing)?;
            undo(context, own_output, &inputs).await?;
            Ok(Value::Null)
        }
        CodePart::Probe => {
            let found = code.probe.ok_or_else(missing)?(context, &inputs).await?;
            serde_json::to_value(found).map_err(StepError::permanent)
        }
    }
}

#[derive(Debug)]
struct RemoteLog(Arc<Line>);

impl LogSink for RemoteLog {
    fn line(&self, level: LogLevel, message: String) {
        let _ = self.0.tell(&Up::Log { level, message }, &[]);
    }
}

/// Tells the latest progress some times a second, however often the code says it, and also where the code
/// says nothing more.
#[derive(Debug)]
struct RemoteProgress {
    line: Arc<Line>,
    latest: Mutex<(Option<Up>, bool)>,
}

impl RemoteProgress {
    fn start(line: Arc<Line>) -> Arc<Self> {
        let progress = Arc::new(Self {
            line,
            latest: Mutex::default(),
        });
        let teller = progress.clone();
        let started = std::thread::Builder::new()
            .name("step-progress".to_owned())
            .spawn(move || {
                loop {
                    std::thread::sleep(PAUSE);
                    teller.flush();
                }
            });
        if let Err(error) = started {
            tracing::warn!(%error, "the progress of the step is told at its end only");
        }
        progress
    }

    fn flush(&self) {
        let (progress, beat) = {
            let mut latest = self.latest.lock();
            (latest.0.take(), std::mem::take(&mut latest.1))
        };
        if let Some(progress) = progress {
            let _ = self.line.tell(&progress, &[]);
        } else if beat {
            let _ = self.line.tell(&Up::Beat, &[]);
        }
    }
}

impl ProgressSink for RemoteProgress {
    fn tell(&self, done: u64, total: u64, message: Option<String>) {
        let said = Up::Progress {
            done,
            total,
            message,
        };
        self.latest.lock().0 = Some(said);
    }

    fn beat(&self) {
        self.latest.lock().1 = true;
    }

    fn end(&self) {}
}
