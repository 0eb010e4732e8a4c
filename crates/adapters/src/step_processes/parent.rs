//! The side that runs the task: starts a process for an attempt, does for it what its code asks of the
//! context, and ends it.

use super::frame::{self, Done, Down, Id, LogSettings, Order, Up, WireAnswer, WireRequest};
use super::memory::Look;
use super::process::{StepProcess, words};
use super::protection::{self, Protection};
use super::role::{MARK, Plan, Role};
use crate::folder::{FolderScratch, folder_of_task};
use bytes::Bytes;
use counterstep_contracts::bytes::format_bytes;
use counterstep_kernel::ports::{IsolatedCode, StepProcesses};
use counterstep_steps::ports::{ByteStream, ServiceError};
use counterstep_steps::{StepContext, StepError, StepResult};
use futures::future::{AbortHandle, BoxFuture, abortable};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt, stream};
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// What a process has of the environment of the one that starts it. The settings, and what else is secret,
/// are not among it.
const ENVIRONMENT: [&str; 11] = [
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TZ",
    "LD_LIBRARY_PATH",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "RUST_BACKTRACE",
    "RUST_LIB_BACKTRACE",
    "RUST_MIN_STACK",
];

/// Pause between two checks of the memory of a process that has a bound.
const LOOK: Duration = Duration::from_millis(20);

/// Whether `main` of this program runs steps in processes of their own.
static PREPARED: AtomicBool = AtomicBool::new(false);

pub(super) fn prepare() {
    PREPARED.store(true, Ordering::Relaxed);
}

/// Whether this program can start processes for steps: its `main` has called
/// [`run_if_asked`](super::run_if_asked).
#[must_use]
pub fn is_prepared() -> bool {
    PREPARED.load(Ordering::Relaxed)
}

/// Starts this program for steps.
#[derive(Debug, Clone)]
pub struct ChildProcesses {
    /// The scratch files of this host, as its turns have them.
    pub scratch: FolderScratch,
    /// How they log.
    pub log: LogSettings,
    /// Names of further variables that they get.
    pub environment: BTreeSet<String>,
    /// Files and folders beside the system's that they read.
    pub readable: Vec<PathBuf>,
    /// What they are not protected by.
    pub without: BTreeSet<Protection>,
}

impl StepProcesses for ChildProcesses {
    fn run(&self, code: IsolatedCode) -> BoxFuture<'static, StepResult<Value>> {
        let started = self.clone();
        Box::pin(async move {
            match started.run_code(code).await {
                Ok(result) => result,
                Err(error) => Err(StepError::transient(format_args!(
                    "the process of the step: {error}"
                ))),
            }
        })
    }
}

impl ChildProcesses {
    fn command(&self, code: &IsolatedCode, socket: StdUnixStream) -> io::Result<Command> {
        let (decl, execution) = (code.task_type.decl, code.context.execution());
        self.scratch.will_hold(execution.task);
        let of_task = folder_of_task(self.scratch.root(), execution.task);
        let name = format!("counterstep-step:{}/{}", decl.name, execution.step);
        let role = Role::Supervisor(Plan {
            host: std::process::id().cast_signed(),
            name: name.clone(),
            own: of_task.join(&execution.step),
            of_task,
            readable: self.readable.clone(),
            without: protection::missing(&self.without).into_keys().collect(),
        });
        // The program that runs, also where its file was replaced by a newer one.
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0(format!("supervisor of {name}"))
            .env_clear()
            .env(MARK, serde_json::to_string(&role)?)
            .stdin(Stdio::from(OwnedFd::from(socket)));
        let further = self.environment.iter().map(String::as_str);
        for name in ENVIRONMENT.into_iter().chain(further) {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        Ok(command)
    }

    fn order(&self, code: &IsolatedCode) -> Order {
        let (decl, context) = (code.task_type.decl, &code.context);
        let (request, outputs, limit) = code.inputs.parts();
        Order {
            task_type: decl.name.to_owned(),
            version: decl.version,
            definition: decl.definition_hash(),
            at: code.at,
            part: code.part,
            execution: context.execution().clone(),
            facts: context.facts().clone(),
            request: request.clone(),
            outputs: outputs.clone(),
            own_output: code.own_output.clone(),
            output_limit: limit.0,
            time_left: context.time_left(),
            scratch: self.scratch.root().to_owned(),
            known_scratch: self.scratch.known_of(context.execution().task),
            memory: bound_of(code),
            log: self.log.clone(),
        }
    }

    async fn run_code(self, code: IsolatedCode) -> io::Result<StepResult<Value>> {
        let (ours, theirs) = StdUnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let process = StepProcess::start(self.command(&code, theirs)?).await?;
        let (read, mut write) = UnixStream::from_std(ours)?.into_split();
        let mut order = Some(Down::Order(Box::new(self.order(&code))));
        let (replies, mut answers) = unbounded_channel();
        let mut desk = Desk::new(code.context.clone(), replies);
        let mut frames = Box::pin(frames(read));
        let mut looks = tokio::time::interval(LOOK);
        let bound = bound_of(&code);
        let mut memory = None;
        let mut told_to_stop = false;
        loop {
            tokio::select! {
                asked = frames.next() => match asked {
                    Some(Ok((Up::Done(done), _))) => {
                        // Its own folder is all that it could write to.
                        let of = code.context.execution();
                        self.scratch.know_sealed(of.task, &of.step, &done.sealed);
                        return Ok(desk.done(*done));
                    }
                    Some(Ok((Up::Began { process }, _))) => if let Some(order) = order.take() {
                        memory = bound.and_then(|_| Look::at(process));
                        // A process that ends before it has read that says why below.
                        let _ = frame::write(&mut write, &order, &[]).await;
                    }
                    Some(Ok((asked, bytes))) => desk.take(asked, bytes),
                    Some(Err(error)) if error.kind() == io::ErrorKind::InvalidData => return Err(error),
                    Some(Err(_)) | None => break,
                },
                Some((reply, bytes)) = answers.recv() => {
                    // Where it does not read any more, the next frame says that it has gone.
                    let _ = frame::write(&mut write, &reply, &bytes).await;
                }
                Some(()) = desk.work.next() => {}
                reason = code.context.cancel().cancelled(), if !told_to_stop => {
                    told_to_stop = true;
                    let _ = frame::write(&mut write, &Down::Cancel(reason), &[]).await;
                }
                _ = looks.tick(), if bound.is_some() => {
                    if let (Some(bound), Some(takes)) = (bound, memory.as_mut().and_then(Look::bytes))
                        && takes > bound
                    {
                        return Ok(Err(StepError::transient(format_args!(
                            "its process used {}, more than its bound of {}, and was killed",
                            format_bytes(takes),
                            format_bytes(bound)
                        ))));
                    }
                }
            }
        }
        drop(frames);
        let ended = words(process.ended().await?);
        let bound = bound.map(|bound| {
            format!(
                "; its memory has a bound of {}, and an allocation beyond that ends it",
                format_bytes(bound)
            )
        });
        Ok(Err(StepError::transient(format_args!(
            "its process ended {ended} before its code did; what it wrote to standard error is in the log of this \
             host{}",
            bound.unwrap_or_default()
        ))))
    }
}

fn bound_of(code: &IsolatedCode) -> Option<u64> {
    code.task_type.decl.steps[code.at].isolate?.memory
}

type Frame = io::Result<(Up, Bytes)>;

/// What the process says, to its end.
fn frames(read: OwnedReadHalf) -> impl futures::Stream<Item = Frame> {
    stream::unfold(Some(read), |read| async {
        let mut read = read?;
        match frame::read(&mut read).await {
            Ok(Some(frame)) => Some((Ok(frame), Some(read))),
            Ok(None) => None,
            Err(error) => Some((Err(error), None)),
        }
    })
}

/// A part of an object that a process stores.
#[derive(Debug)]
enum Part {
    Chunk(Bytes),
    End,
    Broke(String),
}

/// Where goes what the process says of a request that is under way.
enum Feed {
    /// It says nothing more of it.
    None,
    /// To an object that it stores.
    Parts(UnboundedSender<Part>),
    /// To an object that it reads: the next piece is wanted.
    Wanted(UnboundedSender<()>),
}

/// Does what the code of a process asks of its context.
pub(super) struct Desk {
    context: Arc<StepContext>,
    replies: UnboundedSender<(Down, Bytes)>,
    /// The requests that the process has not closed.
    open: HashMap<Id, (Feed, AbortHandle)>,
    pub(super) work: FuturesUnordered<BoxFuture<'static, ()>>,
}

impl Desk {
    pub(super) fn new(context: Arc<StepContext>, replies: UnboundedSender<(Down, Bytes)>) -> Self {
        Self {
            context,
            replies,
            open: HashMap::new(),
            work: FuturesUnordered::new(),
        }
    }

    fn done(&self, done: Done) -> StepResult<Value> {
        self.context.take_over(done.sql, done.unsent);
        done.result
    }

    pub(super) fn take(&mut self, asked: Up, bytes: Bytes) {
        let (context, replies) = (self.context.clone(), self.replies.clone());
        match asked {
            Up::Log { level, message } => context.log(level, message),
            Up::Progress {
                done,
                total,
                message,
            } => context.meter().relay(done, total, message),
            Up::Beat => context.heartbeat(),
            Up::Put { id, bucket, key } => {
                let (parts, body) = unbounded_channel();
                self.begin(id, Feed::Parts(parts), async move {
                    let body = stored(id, body, replies.clone());
                    let stored = context.objects().put_for(&bucket, &key, body).await;
                    let _ = replies.send((Down::Stored { id, stored }, Bytes::new()));
                });
            }
            Up::PutChunk { id } => self.part(id, Part::Chunk(bytes)),
            Up::PutEnd { id } => self.part(id, Part::End),
            Up::PutBroke { id, why } => self.part(id, Part::Broke(why)),
            Up::Get { id, bucket, key } => {
                let (more, wanted) = unbounded_channel();
                self.begin(id, Feed::Wanted(more), async move {
                    let (opened, body) = match context.objects().get_for(&bucket, &key).await {
                        Ok(body) => (Ok(()), Some(body)),
                        Err(error) => (Err(error), None),
                    };
                    let _ = replies.send((Down::Opened { id, opened }, Bytes::new()));
                    if let Some(body) = body {
                        hand_over(id, body, wanted, &replies).await;
                    }
                });
            }
            Up::More { id } => {
                if let Some((Feed::Wanted(more), _)) = self.open.get(&id) {
                    let _ = more.send(());
                }
            }
            // What the code of the worker itself drops is dropped there and then, too.
            Up::Close { id } => {
                if let Some((_, work)) = self.open.remove(&id) {
                    work.abort();
                }
            }
            Up::Delete { id, prefix } => self.begin(id, Feed::None, async move {
                let deleted = context.objects().delete_for(&prefix).await;
                let _ = replies.send((Down::Deleted { id, deleted }, Bytes::new()));
            }),
            Up::Call { id, request } => self.begin(id, Feed::None, async move {
                let (answer, body) = call(&context, request, bytes).await;
                let _ = replies.send((Down::Answer { id, answer }, body));
            }),
            // Taken before they come here.
            Up::Began { .. } | Up::Done(_) => {}
        }
    }

    /// Begins what a request asks for; it ends where the request is closed.
    fn begin(&mut self, id: Id, feed: Feed, work: impl Future<Output = ()> + Send + 'static) {
        let (work, stop) = abortable(work);
        self.open.insert(id, (feed, stop));
        self.work.push(work.map(drop).boxed());
    }

    fn part(&mut self, id: Id, part: Part) {
        if let Some((Feed::Parts(parts), _)) = self.open.get(&id) {
            let _ = parts.send(part);
        }
    }
}

/// The body of an object that a process stores: each part of it is asked for.
fn stored(
    id: Id,
    parts: UnboundedReceiver<Part>,
    replies: UnboundedSender<(Down, Bytes)>,
) -> ByteStream {
    let ask = move |parts: Option<UnboundedReceiver<Part>>| {
        let replies = replies.clone();
        async move {
            let mut parts = parts?;
            let _ = replies.send((Down::Wants { id }, Bytes::new()));
            match parts.recv().await {
                Some(Part::Chunk(bytes)) => Some((Ok(bytes), Some(parts))),
                Some(Part::End) => None,
                Some(Part::Broke(why)) => Some((Err(io::Error::other(why)), None)),
                None => Some((Err(io::Error::other("its process has ended")), None)),
            }
        }
    };
    stream::unfold(Some(parts), ask).boxed()
}

/// Hands an object over, piece by piece as they are asked for.
async fn hand_over(
    id: Id,
    mut body: ByteStream,
    mut wanted: UnboundedReceiver<()>,
    replies: &UnboundedSender<(Down, Bytes)>,
) {
    let mut left = Bytes::new();
    while wanted.recv().await.is_some() {
        while left.is_empty() {
            match body.next().await {
                Some(Ok(chunk)) => left = chunk,
                Some(Err(error)) => {
                    let why = error.to_string();
                    let _ = replies.send((Down::Broke { id, why }, Bytes::new()));
                    return;
                }
                None => {
                    let _ = replies.send((Down::End { id }, Bytes::new()));
                    return;
                }
            }
        }
        let _ = replies.send((Down::Chunk { id }, frame::piece(&mut left)));
    }
}

async fn call(
    context: &StepContext,
    request: WireRequest,
    body: Bytes,
) -> (Result<WireAnswer, ServiceError>, Bytes) {
    let Some(request) = request.with(body) else {
        let why = "a header that the context of a step does not set".to_owned();
        return (Err(ServiceError::Refused(why)), Bytes::new());
    };
    match context.call_for(request).await {
        Ok(answer) => {
            let (answer, body) = WireAnswer::of(answer);
            (Ok(answer), body)
        }
        Err(error) => (Err(error), Bytes::new()),
    }
}
