//! `counterstep demo`: the main job on a person's own files, over real HTTP, in a temporary folder.
//! With a fault planted on request: a step that fails, or a worker that is killed in the middle of
//! one.

mod child;
mod show;

use super::output::print;
use super::remote::Remote;
use super::submit::{check_place, download};
use super::table::Look;
use super::trail;
use crate::client::Options;
use crate::run::{Roles, run};
use child::WorkerProcess;
use counterstep_api::ApiSettings;
use counterstep_contracts::http::TaskView;
use counterstep_contracts::operation::task_views::GetAudit;
use counterstep_contracts::{StepKind, StepStatus, TaskDecl, TaskId, TaskStatus};
use counterstep_kernel::engine::faults::{Fault, FaultKind};
use counterstep_kernel::{Engine, EngineSettings};
use counterstep_node::{Exit, Settings, open};
use counterstep_reconciler::ReconcilerSettings;
use counterstep_steps::{CancelReason, CancelToken, Registry};
use counterstep_worker::WorkerSettings;
use serde_json::Map;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The task type that the demonstration runs, and its request's field for files.
/// Columns of the audit where standard output is no terminal.
const WIDTH_ON_A_PIPE: usize = 200;

const TASK_TYPE: &str = "CreateZipFromFiles";
const FIELD: &str = "files";
const RESULT: &str = "zip";

/// Flags of `demo`.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct DemoArgs {
    /// The files to zip [default: two that are made for the occasion]
    files: Vec<PathBuf>,
    /// Where to write the ZIP [default: out.zip; with --crash-at nowhere]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Lets this step fail after its work, and shows how everything is undone in reverse
    #[arg(long, value_name = "STEP", conflicts_with = "crash_at")]
    fail_at: Option<String>,
    /// Kills the worker in the middle of this step with SIGKILL, and shows how another one goes on
    #[arg(long, value_name = "STEP")]
    crash_at: Option<String>,
    /// What to log
    #[arg(long, default_value = "error")]
    log: String,
}

impl DemoArgs {
    /// Where the ZIP goes; `None`: nowhere.
    fn out(&self) -> Option<&Path> {
        let usual = self.crash_at.is_none().then_some(Path::new("out.zip"));
        self.out.as_deref().or(usual)
    }
}

/// Times of a demonstration in which a worker is killed: short, so that lease and sweep can be
/// waited for.
const CRASH_LEASE: Duration = Duration::from_secs(2);
const CRASH_STEP_TIMEOUT: Duration = Duration::from_secs(10);
const CRASH_GRACE: Duration = Duration::from_secs(1);

/// Whether a program with these task types has what the demonstration runs.
pub(super) fn runs(registry: &Registry) -> bool {
    registry.newest(TASK_TYPE).is_some()
}

pub(super) fn main(registry: Registry, args: &DemoArgs) -> Result<(), Exit> {
    let task_type = registry
        .iter()
        .find(|task_type| task_type.decl.name == TASK_TYPE)
        .copied();
    let decl = task_type.map(|task_type| task_type.decl).ok_or_else(|| {
        Exit::config(format_args!(
            "the demonstration runs `{TASK_TYPE}`, and this program has no such task type"
        ))
    })?;
    for step in [&args.fail_at, &args.crash_at].into_iter().flatten() {
        check_step(decl, step)?;
    }
    let folder = tempfile::Builder::new()
        .prefix("counterstep-demo-")
        .tempdir();
    let folder = folder.map_err(|error| {
        Exit::failed(format_args!("no temporary folder could be made: {error}"))
    })?;
    let files = if args.files.is_empty() {
        sample_files(folder.path())?
    } else {
        args.files.clone()
    };
    for file in &files {
        std::fs::File::open(file)
            .and_then(|open| open.metadata())
            .and_then(|meta| {
                if meta.is_file() {
                    Ok(())
                } else {
                    Err(std::io::ErrorKind::IsADirectory.into())
                }
            })
            .map_err(|error| {
                Exit::usage(format_args!(
                    "`{}` cannot be read as a file: {error}",
                    file.display()
                ))
            })?;
    }
    if let Some(out) = args.out() {
        check_place(out).map_err(|error| Exit::usage(format_args!("--out: {error}")))?;
    }
    let settings = settings(folder.path(), args);
    counterstep_node::run(
        &settings,
        Box::pin(async {
            let demo = Demo {
                args,
                decl,
                files,
                settings: &settings,
                folder: folder.path(),
            };
            demo.run(registry).await
        }),
    )
}

/// A fault can be planted where a host runs the step; a step that the request itself carries out is
/// over by then.
fn check_step(decl: &TaskDecl, name: &str) -> Result<(), Exit> {
    let steps = || {
        decl.steps
            .iter()
            .filter(|step| step.host == counterstep_contracts::Host::Worker)
    };
    if steps().any(|step| step.name == name) {
        return Ok(());
    }
    let known: Vec<_> = steps().map(|step| step.name).collect();
    let why = match decl.step(name) {
        Some(step) if step.kind == StepKind::BuiltIn => "is carried out while the request arrives",
        Some(_) => "does not run on a worker",
        None => "is no step of the task",
    };
    Err(Exit::config(format_args!(
        "`{}` {why}: choose one of {}",
        name.escape_debug(),
        known.join(", ")
    )))
}

fn settings(folder: &Path, args: &DemoArgs) -> Settings {
    let mut engine = EngineSettings::default();
    if let Some(step) = &args.fail_at {
        engine.faults.push(Fault::at(step, FaultKind::FailAfter));
    }
    if args.crash_at.is_some() {
        engine.lease = CRASH_LEASE;
        engine.step_timeout = CRASH_STEP_TIMEOUT;
        engine.cancel_grace = CRASH_GRACE;
    }
    Settings {
        engine,
        log: args.log.clone(),
        ..Settings::in_folder(folder)
    }
}

fn sample_files(folder: &Path) -> Result<Vec<PathBuf>, Exit> {
    let folder = folder.join("samples");
    let cannot = |error: std::io::Error| {
        Exit::failed(format_args!("the sample files cannot be written: {error}"))
    };
    std::fs::create_dir_all(&folder).map_err(cannot)?;
    let lines = |text: &str, times: usize| format!("{text}\n").repeat(times);
    let samples = [
        ("hello.txt", lines("Hello from Counterstep.", 1)),
        ("numbers.csv", lines("1,2,3,4,5,6,7,8", 50_000)),
    ];
    samples
        .into_iter()
        .map(|(name, text)| {
            let path = folder.join(name);
            std::fs::write(&path, text).map_err(cannot)?;
            Ok(path)
        })
        .collect()
}

struct Demo<'a> {
    args: &'a DemoArgs,
    decl: &'static TaskDecl,
    files: Vec<PathBuf>,
    settings: &'a Settings,
    folder: &'a Path,
}

impl Demo<'_> {
    async fn run(self, registry: Registry) -> Result<(), Exit> {
        let engine = open(self.settings, registry, "demo").await?;
        let listener = TcpListener::bind("127.0.0.1:0").map_err(Exit::failed)?;
        let address = listener.local_addr().map_err(Exit::failed)?;
        let remote = Remote::new(&format!("http://{address}"), None)?;
        let in_process = self.args.crash_at.is_none();
        let roles = Roles {
            api: Some((
                listener,
                ApiSettings {
                    drain: Duration::from_secs(1),
                    ..ApiSettings::default()
                },
            )),
            worker: in_process.then(WorkerSettings::default),
            reconciler: Some(ReconcilerSettings {
                every: Duration::from_secs(1),
                ..ReconcilerSettings::default()
            }),
        };
        let who = if in_process {
            "API, worker and reconciler in this process"
        } else {
            "API and reconciler in this process, the worker in its own"
        };
        print(&format!(
            "Started {who}: {address}, data in {}\n",
            self.folder.display()
        ))?;

        let shutdown = CancelToken::new();
        let services = run(&engine, roles, shutdown.clone());
        let work = async {
            let shown = self.show(&engine, &remote).await;
            shutdown.cancel(CancelReason::Shutdown);
            shown
        };
        let (served, shown) = tokio::join!(services, work);
        shown.and(served)
    }

    async fn show(&self, engine: &Engine, remote: &Remote) -> Result<(), Exit> {
        let began = Instant::now();
        let mut worker = match &self.args.crash_at {
            Some(step) => Some(WorkerProcess::start(self.settings, Some(step))?),
            None => None,
        };
        let in_field = |path: &PathBuf| (FIELD.to_owned(), path.clone());
        let files: Vec<_> = self.files.iter().map(in_field).collect();
        let accepted = remote
            .submit_form(&self.decl.route(), &Options::default(), &Map::new(), &files)
            .await?;
        let task = accepted.task_id;
        print(&format!(
            "Submitted {} files as task {task}\n\n",
            files.len()
        ))?;
        let progress = show::Steps::new(self.decl);
        let mut lost = None;
        if let (Some(step), Some(running)) = (&self.args.crash_at, worker.take()) {
            self.until(remote, task, &progress, |view| {
                step_is(view, step, StepStatus::Running)
            })
            .await?;
            // It has done its work by now and not committed it: the worst moment.
            tokio::time::sleep(Duration::from_millis(500)).await;
            let pid = running.kill().await?;
            lost = Some(Instant::now());
            progress.note(&format!(
                "killed worker {pid} with SIGKILL in the middle of {step}"
            ))?;
            let another = WorkerProcess::start(self.settings, None)?;
            progress.note(&format!(
                "started worker {}; it can claim when the lease of {CRASH_LEASE:?} is over",
                another.pid()
            ))?;
            worker = Some(another);
        }
        let view = self
            .until(remote, task, &progress, |view| view.status.is_at_rest())
            .await?;
        progress.finish(&view)?;
        if let Some(worker) = worker {
            worker.stop().await?;
        }
        // A demonstration is for people, on a pipe too.
        let look = Look::here();
        let width = look.width.unwrap_or(WIDTH_ON_A_PIPE);
        let look = Look {
            width: Some(width),
            ..look
        };
        let rows = look.plain(&trail::rows(&remote.call::<GetAudit>(task, ()).await?));
        print(&format!("{rows}\n"))?;
        self.conclude(engine, remote, &view, lost).await?;
        print(&format!(
            "\nAll of it took {:.1} s\n",
            began.elapsed().as_secs_f64()
        ))
    }

    async fn until(
        &self,
        remote: &Remote,
        task: TaskId,
        progress: &show::Steps,
        reached: impl Fn(&TaskView) -> bool,
    ) -> Result<TaskView, Exit> {
        loop {
            let view = remote.task(task).await?;
            progress.show(&view)?;
            if reached(&view) {
                return Ok(view);
            }
            if view.status.is_at_rest() {
                let status = view.status;
                return Err(Exit::failed(format_args!(
                    "task {task} ended as {status} before it came that far"
                )));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// What the run was to show: checked, and said.
    async fn conclude(
        &self,
        engine: &Engine,
        remote: &Remote,
        view: &TaskView,
        lost: Option<Instant>,
    ) -> Result<(), Exit> {
        let expected = if self.args.fail_at.is_some() {
            TaskStatus::Failed
        } else {
            TaskStatus::Completed
        };
        if view.status != expected {
            return Err(Exit::failed(format_args!(
                "expected the task to end as {expected}; it is {}",
                view.status
            )));
        }
        if expected == TaskStatus::Completed
            && let Some(out) = self.args.out()
        {
            let size = download(remote, view.task_id, RESULT, out, true).await?;
            print(&format!("Wrote {} ({size} bytes)\n", out.display()))?;
        }
        if self.args.crash_at.is_none() {
            return show::no_orphans(engine, view, Duration::ZERO).await;
        }
        show::committed_once(remote, view).await?;
        // Until then a writer could still be alive: the attempt's limit, the grace after a cancel,
        // and the lease.
        let protected = CRASH_STEP_TIMEOUT + CRASH_GRACE + CRASH_LEASE;
        print(&format!(
            "Waiting for the sweep: what the killed attempt stored is an orphan {protected:?} after its start\n"
        ))?;
        show::no_orphans(
            engine,
            view,
            protected.saturating_sub(lost.map_or(Duration::ZERO, |lost| lost.elapsed())),
        )
        .await
    }
}

fn step_is(view: &TaskView, step: &str, status: StepStatus) -> bool {
    view.steps
        .iter()
        .any(|row| row.name == step && row.status == status)
}
