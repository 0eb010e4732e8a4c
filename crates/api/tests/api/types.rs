//! Task types for the tests, one for each way in which a task can end.

use counterstep_macros::distributed_task;
use counterstep_steps::contracts::RetryPolicy;
use counterstep_steps::{AwaitSignal, BreakerPolicy, UploadMany, UploadedFile};
use counterstep_steps::{
    FileName, LogLevel, Registry, StepContext, StepError, StepResult, StoredFile, StoredFiles,
    UndoResult,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

pub(crate) fn all() -> Registry {
    let registry = crate::children::types(crate::events::types(Registry::new()));
    let registry = crate::limits::types(registry);
    crate::disabling::types(crate::script::types(registry))
        .with::<WriteNote>()
        .with::<ChargeCard>()
        .with::<KeepFiles>()
        .with::<AlwaysFails>()
        .with::<CannotUndo>()
        .with::<UndoesForLong>()
        .with::<AskFirst>()
        .with::<CallOut>()
        .with::<AsksAPerson>()
        .with::<Plod>()
        .with::<AddUp>()
        .with::<crate::labels::Parcel>()
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Note {
    text: String,
    count: Option<u32>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Written {
    length: usize,
}

/// Waits for a worker; can be cancelled.
pub(crate) struct WriteNote;

#[distributed_task(
    name = "WriteNote",
    version = 1,
    queue = "notes",
    timeout = "10m",
    cancellable
)]
impl WriteNote {
    type Request = Note;
    type Response = Written;

    #[step(1, host = "worker")]
    #[pure]
    async fn write(req: &Note) -> StepResult<Written> {
        Ok(Written {
            length: req.text.len() + req.count.unwrap_or(0) as usize,
        })
    }

    fn respond(written: &Written) -> Written {
        Written {
            length: written.length,
        }
    }
}

/// Waits for a worker; cannot be cancelled.
pub(crate) struct ChargeCard;

#[distributed_task(name = "ChargeCard", version = 1, queue = "cards")]
impl ChargeCard {
    type Request = Note;
    type Response = Written;

    #[step(1, host = "worker")]
    #[pure]
    async fn charge(req: &Note) -> StepResult<Written> {
        Ok(Written {
            length: req.text.len(),
        })
    }

    fn respond(written: &Written) -> Written {
        Written {
            length: written.length,
        }
    }
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Files {
    label: Option<String>,
    tags: Option<Vec<String>>,
    copies: Option<u32>,
    #[serde(default)]
    urgent: bool,
    output_file_name: Option<FileName>,
    files: Vec<UploadedFile>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Kept {
    files: StoredFiles,
    first: StoredFile,
    elsewhere: StoredFile,
    label: Option<String>,
    tags: Option<Vec<String>>,
    copies: Option<u32>,
    urgent: bool,
}

/// Completes with its uploads.
pub(crate) struct KeepFiles;

#[distributed_task(name = "KeepFiles", version = 1, queue = "files", cancellable)]
impl KeepFiles {
    type Request = Files;
    type Response = Kept;

    #[step(1, host = "api")]
    fn upload(req: &Files) -> UploadMany {
        UploadMany::to("incoming-files", &req.files)
    }

    fn respond(req: &Files, stored: &StoredFiles) -> Kept {
        let first = stored.iter().next().expect("at least one").clone();
        let other = uuid::Uuid::nil().to_string();
        let id = first.key.split('/').nth(2).expect("a task id").to_owned();
        let elsewhere = StoredFile {
            key: first.key.replace(&id, &other),
            ..first.clone()
        };
        Kept {
            files: stored.clone(),
            first,
            elsewhere,
            label: req.label.clone(),
            tags: req.tags.clone(),
            copies: req.copies,
            urgent: req.urgent,
        }
    }
}

/// Ends as failed, with nothing to undo.
pub(crate) struct AlwaysFails;

#[distributed_task(name = "AlwaysFails", version = 1, queue = "fails", cancellable)]
impl AlwaysFails {
    type Request = Note;
    type Response = Written;

    #[step(1, host = "worker")]
    #[pure]
    async fn fail(req: &Note) -> StepResult<Written> {
        Err(StepError::permanent(format_args!(
            "no luck with {}",
            req.text
        )))
    }

    fn respond(written: &Written) -> Written {
        Written {
            length: written.length,
        }
    }
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Reserved(u32);

#[derive(Serialize, Deserialize)]
/// Fails, and its undo gives up.
pub(crate) struct CannotUndo;

#[distributed_task(name = "CannotUndo", version = 1, queue = "undo", cancellable)]
impl CannotUndo {
    type Request = Note;
    type Response = Written;

    #[step(1, host = "worker", undo = release)]
    async fn reserve(_req: &Note) -> StepResult<Reserved> {
        Ok(Reserved(1))
    }

    async fn release(_ctx: &StepContext, _out: Option<Reserved>) -> UndoResult {
        Err(StepError::permanent("the other side is gone for good"))
    }

    #[step(2, host = "worker")]
    #[pure]
    async fn fail(_reserved: &Reserved) -> StepResult<Written> {
        Err(StepError::permanent("no luck"))
    }

    fn respond(written: &Written) -> Written {
        Written {
            length: written.length,
        }
    }
}

/// The undo is tried again and again, far apart.
pub(crate) const FAR_APART: RetryPolicy = RetryPolicy::constant("1h").max_retries(10);

/// Fails, and its undo takes its time.
pub(crate) struct UndoesForLong;

#[distributed_task(name = "UndoesForLong", version = 1, queue = "long", cancellable)]
impl UndoesForLong {
    type Request = Note;
    type Response = Written;

    #[step(1, host = "worker", undo = release, undo_retry = FAR_APART)]
    async fn reserve(_req: &Note) -> StepResult<Reserved> {
        Ok(Reserved(1))
    }

    async fn release(_ctx: &StepContext, _out: Option<Reserved>) -> UndoResult {
        Err(StepError::transient("the other side is away"))
    }

    #[step(2, host = "worker")]
    #[pure]
    async fn fail(_reserved: &Reserved) -> StepResult<Written> {
        Err(StepError::permanent("no luck"))
    }

    fn respond(written: &Written) -> Written {
        Written {
            length: written.length,
        }
    }
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Permission {
    by: String,
    level: u8,
}

/// Waits for a person's permission.
pub(crate) struct AskFirst;

#[distributed_task(name = "AskFirst", version = 1, queue = "questions", cancellable)]
impl AskFirst {
    type Request = Note;
    type Response = String;

    #[step(1, host = "worker")]
    fn permission(_req: &Note) -> AwaitSignal<Permission> {
        AwaitSignal::within("72h")
    }

    fn respond(permission: &Permission) -> String {
        format!("{} at level {}", permission.by, permission.level)
    }
}

/// Is parked for a person at its second step, each time.
pub(crate) struct AsksAPerson;

#[distributed_task(name = "AsksAPerson", version = 1, queue = "people", cancellable)]
impl AsksAPerson {
    type Request = Note;
    type Response = Written;

    #[step(1, host = "worker", undo = release)]
    async fn reserve(_req: &Note) -> StepResult<Reserved> {
        Ok(Reserved(1))
    }

    async fn release(_ctx: &StepContext, _out: Option<Reserved>) -> UndoResult {
        Ok(())
    }

    #[step(
        2,
        host = "worker",
        on_exhausted = "dead_letter",
        no_undo = "it only looks"
    )]
    async fn judge(_reserved: &Reserved) -> StepResult<Written> {
        Err(StepError::permanent("only a person can judge this"))
    }

    fn respond(written: &Written) -> Written {
        Written {
            length: written.length,
        }
    }
}

pub(crate) const LINE: BreakerPolicy = BreakerPolicy::named("line")
    .after_failures(1)
    .open_for("1h");

/// Calls a service, over a line that may be down.
pub(crate) struct CallOut;

#[distributed_task(name = "CallOut", version = 1, queue = "calls", cancellable)]
impl CallOut {
    type Request = Note;
    type Response = u32;

    #[step(1, host = "worker", breaker = LINE, no_undo = "what is said is said")]
    async fn call(_req: &Note) -> StepResult<u32> {
        Ok(1)
    }

    fn respond(call: &u32) -> u32 {
        *call
    }
}

/// Says how far it is, and goes on until it is cancelled.
pub(crate) struct Plod;

#[distributed_task(name = "Plod", version = 1, queue = "plods", cancellable)]
impl Plod {
    type Request = Note;
    type Response = u32;

    #[step(1, host = "worker", no_undo = "it gets nowhere")]
    async fn trudge(ctx: &StepContext, _req: &Note) -> StepResult<u32> {
        ctx.progress(3, 8);
        ctx.log(LogLevel::Info, "on the way");
        ctx.task_log().write(LogLevel::Warn, "it is\nfar");
        ctx.cancel().cancelled().await;
        Err(StepError::cancelled())
    }

    fn respond(trudge: &u32) -> u32 {
        *trudge
    }
}

/// Its request is no object.
pub(crate) struct AddUp;

#[distributed_task(name = "AddUp", queue = "sums")]
impl AddUp {
    type Request = BTreeSet<u32>;
    type Response = u32;

    #[step(1, host = "api")]
    #[pure]
    async fn add(numbers: &BTreeSet<u32>) -> StepResult<u32> {
        Ok(numbers.iter().sum())
    }

    fn respond(add: &u32) -> u32 {
        *add
    }
}
