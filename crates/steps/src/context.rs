//! What a step sees of the engine: its identity, its cancel token, its objects and its scratch.

use crate::cancel::CancelToken;
use crate::digest::measured;
use crate::error::{StepError, StepResult};
use crate::guard;
use crate::keys;
use crate::log::TaskLog;
use crate::ports::{ByteStream, ObjectError, Objects, Scratch};
use crate::progress::Meter;
use crate::scratch::{ScratchDraft, ScratchFile, ScratchPlace};
use crate::services::Services;
use crate::sql::Sql;
use crate::task::TaskFacts;
use crate::times::TimeLeft;
use crate::verified::verified;
use counterstep_contracts::{
    Attempt, Direction, Epoch, FileName, Labels, LogLevel, StoredFile, TaskId, Tenant,
};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};
use tokio::io::AsyncRead;

/// Which execution of which step this is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Execution {
    /// Tenant that owns the task.
    pub tenant: Tenant,
    /// Id of the task.
    pub task: TaskId,
    /// Which step, by name.
    pub step: String,
    /// Run or undo.
    pub direction: Direction,
    /// From 1 in each direction.
    pub attempt: Attempt,
    /// The epoch it runs under.
    pub epoch: Epoch,
}

impl Execution {
    /// The prefix of the objects it may store.
    #[must_use]
    pub fn prefix(&self) -> String {
        // An undo may store objects too (a receipt, say). Its numbers run apart from the step's, so
        // its name differs.
        let step = match self.direction {
            Direction::Forward => self.step.clone(),
            Direction::Undo => format!("{}.undo", self.step),
        };
        keys::attempt_prefix(&self.tenant, self.task, &step, self.epoch, self.attempt)
    }
}

/// Handed to each execution of a step or an undo.
#[derive(Debug)]
pub struct StepContext {
    pub(crate) execution: Execution,
    cancel: CancelToken,
    scratch: Arc<dyn Scratch>,
    pub(crate) objects: Arc<ObjectsContext>,
    scratch_made: AtomicU32,
    sql: Mutex<Vec<Sql>>,
    pub(crate) services: Services,
    meter: Meter,
    log: TaskLog,
    pub(crate) facts: TaskFacts,
    time_left: TimeLeft,
}

impl StepContext {
    /// For the engine and for tests of steps.
    #[must_use]
    pub fn new(
        execution: Execution,
        cancel: CancelToken,
        objects: Arc<dyn Objects>,
        scratch: Arc<dyn Scratch>,
    ) -> Self {
        let objects = Arc::new(ObjectsContext {
            objects,
            own: keys::task_prefix(&execution.tenant, execution.task),
            step_prefix: keys::step_prefix(&execution.tenant, execution.task, &execution.step),
            prefix: execution.prefix(),
            stored: AtomicU32::new(0),
            written: Mutex::new(false),
        });
        let (scratch_made, sql, meter) = (AtomicU32::new(0), Mutex::default(), Meter::default());
        Self {
            execution,
            cancel,
            scratch,
            objects,
            scratch_made,
            sql,
            services: Services::default(),
            meter,
            log: TaskLog::default(),
            facts: TaskFacts::default(),
            time_left: TimeLeft::default(),
        }
    }

    /// The same, of a task of which this is known.
    #[must_use]
    pub fn of_task(self, facts: TaskFacts) -> Self {
        Self { facts, ..self }
    }

    /// The same, with a limit on the time of the attempt.
    #[must_use]
    pub fn limited_by(self, time_left: TimeLeft) -> Self {
        Self { time_left, ..self }
    }

    /// The same, with a place for what it says of its progress.
    #[must_use]
    pub fn measured_by(self, meter: Meter) -> Self {
        Self { meter, ..self }
    }

    /// The same, with a place for what it logs.
    #[must_use]
    pub fn logged_by(self, log: TaskLog) -> Self {
        Self { log, ..self }
    }

    /// The task.
    #[must_use]
    pub const fn task_id(&self) -> TaskId {
        self.execution.task
    }

    /// The step's name.
    #[must_use]
    pub fn step(&self) -> &str {
        &self.execution.step
    }

    /// Which try this is, from 1.
    #[must_use]
    pub const fn attempt(&self) -> Attempt {
        self.execution.attempt
    }

    /// Tenant of the task.
    #[must_use]
    pub const fn tenant(&self) -> &Tenant {
        &self.execution.tenant
    }

    /// The declared name of the task's type.
    #[must_use]
    pub fn task_type(&self) -> &str {
        &self.facts.task_type
    }

    /// When the task was submitted, by the database's clock. `None` in a pure step that runs before
    /// its task is accepted.
    #[must_use]
    pub fn submitted_at(&self) -> Option<SystemTime> {
        self.facts.submitted_at.map(SystemTime::from)
    }

    /// The task's deadline, by the database's clock: no step starts after it, and the task is undone
    /// then. `None`: its type declares no `timeout`, or it is not accepted yet.
    #[must_use]
    pub fn task_deadline(&self) -> Option<SystemTime> {
        self.facts.deadline_at.map(SystemTime::from)
    }

    /// How long this attempt may still take, by this host's timer: what is left of the limit of one
    /// attempt, or of the task's deadline where that comes first. Zero when it is over. For the time
    /// limits of what the step calls.
    #[must_use]
    pub fn time_left(&self) -> Duration {
        self.time_left.now()
    }

    /// The `Idempotency-Key` that the client submitted the task with. For looking things up; what
    /// goes to outside services is the [effect key](Self::effect_key).
    #[must_use]
    pub fn client_key(&self) -> Option<&str> {
        self.facts.client_key.as_deref()
    }

    /// The labels of the task.
    #[must_use]
    pub fn labels(&self) -> &Labels {
        &self.facts.labels
    }

    /// The W3C `traceparent` for what this attempt calls: of its own span where the process records
    /// traces, or else of the submission. [Calls](Self::call) carry it by themselves.
    #[must_use]
    pub fn traceparent(&self) -> Option<&str> {
        self.facts.traceparent.as_deref()
    }

    /// The trace id of the task: 32 hexadecimal digits.
    #[must_use]
    pub fn trace_id(&self) -> Option<&str> {
        self.facts.trace_id()
    }

    /// `{task}:{step}`, for an undo `{task}:{step}:undo`: the same on every attempt. The idempotency
    /// key of one request. What a step does, and its undo takes back, is named by the
    /// [step key](Self::step_key).
    #[must_use]
    pub fn effect_key(&self) -> String {
        self.key_in(self.execution.direction)
    }

    pub(crate) fn key_in(&self, direction: Direction) -> String {
        let Execution { task, step, .. } = &self.execution;
        match direction {
            Direction::Forward if guard!("same key for each attempt", false) => {
                format!("{task}:{step}:{}", self.execution.attempt)
            }
            Direction::Forward => format!("{task}:{step}"),
            Direction::Undo => format!("{task}:{step}:undo"),
        }
    }

    /// `{effect_key}:{attempt}`: this execution only. For claims and logs.
    #[must_use]
    pub fn execution_key(&self) -> String {
        format!("{}:{}", self.effect_key(), self.execution.attempt)
    }

    /// Tells a long step when to stop, and why.
    #[must_use]
    pub const fn cancel(&self) -> &CancelToken {
        &self.cancel
    }

    /// For loops: an error once the step is told to stop.
    ///
    /// # Errors
    /// Cancelled; hand it on with `?`.
    pub fn go_on(&self) -> StepResult<()> {
        if self.cancel.is_cancelled() {
            Err(StepError::cancelled())
        } else {
            Ok(())
        }
    }

    /// Says how far this attempt is: `done` out of `total`, in units of its own; `total` is 0 where
    /// it is not known. A hint for people who look on: it never waits, never fails, and only the
    /// latest counts.
    pub fn progress(&self, done: u64, total: u64) {
        self.meter.tell(done, total);
    }

    /// The same, with a message for people: what the attempt is at. One line of at most 200 bytes:
    /// control characters are written out, and the rest is cut.
    pub fn progress_with(&self, done: u64, total: u64, message: impl Display) {
        self.meter.tell_with(done, total, message);
    }

    /// Says that the attempt is alive. Where its step declares `heartbeat`, an attempt that says so
    /// neither in this way nor by its progress for that long has failed, as timed out: a step that
    /// hangs is noticed before its time limit. Never waits and never fails.
    pub fn heartbeat(&self) {
        self.meter.beat();
    }

    /// The same for code that cannot borrow the context: on a blocking thread, in a stream.
    #[must_use]
    pub fn meter(&self) -> Meter {
        self.meter.clone()
    }

    /// Adds a line to the log of the task, which people read beside its state. Never waits and never
    /// fails. A line is written within a second, and before the outcome of the attempt is; control
    /// characters are written out, and a long message is cut. The log of a task is bounded: the
    /// oldest lines go first.
    pub fn log(&self, level: LogLevel, message: impl Display) {
        self.log.write(level, message);
    }

    /// The same for code that cannot borrow the context: on a blocking thread, in a stream.
    #[must_use]
    pub fn task_log(&self) -> TaskLog {
        self.log.clone()
    }

    /// The object store, as far as it is this execution's.
    #[must_use]
    pub fn objects(&self) -> &ObjectsContext {
        &self.objects
    }

    /// Writes to tables of your own, in the database that the task is kept in, in the very
    /// transaction that commits this attempt's success: exactly once, however often the step runs.
    /// Nothing is written at this call, and nothing at all where the attempt fails or another host
    /// has the task. In the order of the calls.
    ///
    /// A statement that the database refuses makes the attempt fail: as permanent where a
    /// constraint or the number of rows speaks against it, else as transient.
    pub fn in_transaction(&self, statement: Sql) {
        self.sql.lock().push(statement);
    }

    /// Whether anything is to be written together with the success.
    #[must_use]
    pub fn has_sql(&self) -> bool {
        !self.sql.lock().is_empty()
    }

    /// What is to be written together with the success.
    #[must_use]
    pub fn take_sql(&self) -> Vec<Sql> {
        std::mem::take(&mut *self.sql.lock())
    }

    /// Starts a local file for later steps on this host. `name` is for people; the path comes from
    /// the engine.
    ///
    /// # Errors
    /// Permanent for a name that is no [`FileName`]; transient when the disk refuses.
    pub async fn scratch(&self, name: &str) -> StepResult<ScratchDraft> {
        let name = FileName::parse(name).map_err(|error| {
            StepError::permanent(format_args!(
                "scratch file `{}`: {error}",
                name.escape_debug()
            ))
        })?;
        let n = self.scratch_made.fetch_add(1, Ordering::Relaxed);
        let place = ScratchPlace {
            task: self.execution.task,
            step: self.execution.step.clone(),
        };
        let Execution { epoch, attempt, .. } = self.execution;
        ScratchDraft::create(self.scratch.clone(), place, name, (epoch, attempt, n)).await
    }

    /// Where a finished scratch file lies on this host.
    ///
    /// # Errors
    /// Transient when it is gone: the engine looks before it runs a step, so it vanished since.
    pub async fn scratch_path(&self, file: &ScratchFile) -> StepResult<PathBuf> {
        let found = self.scratch.locate(self.execution.task, file).await;
        found
            .map_err(|error| {
                StepError::transient(format_args!(
                    "looking for the scratch file `{}`: {error}",
                    file.name
                ))
            })?
            .ok_or_else(|| {
                StepError::transient(format_args!(
                    "the scratch file `{}` is gone from this host",
                    file.name
                ))
            })
    }

    /// Streams a finished scratch file.
    ///
    /// # Errors
    /// Transient when it is gone or unreadable.
    pub async fn read_scratch(&self, file: &ScratchFile) -> StepResult<ByteStream> {
        let path = self.scratch_path(file).await?;
        let read = self.scratch.read(&path).await;
        read.map_err(|error| {
            StepError::transient(format_args!(
                "reading the scratch file `{}`: {error}",
                file.name
            ))
        })
    }
}

/// The object store as one execution may use it: it writes under its own prefix only, and reads its
/// own task only.
#[derive(Debug)]
pub struct ObjectsContext {
    pub(crate) objects: Arc<dyn Objects>,
    pub(crate) own: String,
    pub(crate) step_prefix: String,
    pub(crate) prefix: String,
    stored: AtomicU32,
    pub(crate) written: Mutex<bool>,
}

impl ObjectsContext {
    /// Streams bytes to the object store. The key is the engine's; `name` is metadata.
    ///
    /// # Errors
    /// Permanent for a bucket that is not acceptable; transient when the store, or the source,
    /// breaks off.
    pub async fn put(
        &self,
        bucket: &str,
        name: &FileName,
        content_type: &str,
        body: ByteStream,
    ) -> StepResult<StoredFile> {
        keys::check_bucket_name(bucket)?;
        let key = keys::object_key(&self.prefix, self.stored.fetch_add(1, Ordering::Relaxed));
        // Noted before the first byte leaves: what breaks off half-way has been written to as well.
        *self.written.lock() = true;
        let (body, digest) = measured(body);
        let size_bytes = self
            .objects
            .put(bucket, &key, body)
            .await
            .map_err(|error| object_error(&error))?;
        Ok(StoredFile {
            name: name.clone(),
            bucket: bucket.to_owned(),
            key,
            size_bytes,
            sha256: digest.finish(),
            content_type: content_type.to_owned(),
        })
    }

    /// Streams a stored file of this task. The stream ends in an error, and not with the last
    /// bytes, where the object's size or SHA-256 is not the one that the file was stored with.
    ///
    /// # Errors
    /// Permanent when it is another task's or not there; transient when the store does not answer.
    pub async fn read(&self, file: &StoredFile) -> StepResult<ByteStream> {
        if !file.key.starts_with(&self.own) {
            return Err(StepError::permanent(format_args!(
                "object `{}` belongs to another task",
                file.key
            )));
        }
        let body = self
            .objects
            .get(&file.bucket, &file.key)
            .await
            .map_err(|error| object_error(&error))?;
        Ok(verified(body, file))
    }

    /// Like [`read`](Self::read), as an `AsyncRead`.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub async fn reader(&self, file: &StoredFile) -> StepResult<Pin<Box<dyn AsyncRead + Send>>> {
        Ok(Box::pin(tokio_util::io::StreamReader::new(
            self.read(file).await?,
        )))
    }

    /// Deletes everything that any attempt of this step ever stored: what most undos of steps that
    /// store objects want.
    ///
    /// # Errors
    /// Transient when the store does not answer.
    pub async fn delete_all_of_step(&self) -> StepResult<u64> {
        self.objects
            .delete_prefix(&self.step_prefix)
            .await
            .map_err(|error| object_error(&error))
    }

    /// Whether anything was put.
    #[must_use]
    pub fn written(&self) -> bool {
        *self.written.lock()
    }
}

/// What an error of the object store means for a step.
fn object_error(error: &ObjectError) -> StepError {
    match error {
        ObjectError::NotFound(_) | ObjectError::Refused(_) => StepError::permanent(error),
        ObjectError::Source(_) | ObjectError::Unavailable(_) => StepError::transient(error),
    }
}
