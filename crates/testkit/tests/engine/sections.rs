//! Sections of steps that block: they read stored files, write scratch, and stop with their step.

use crate::errand::only;
use counterstep_contracts::{Host, StepStatus, TaskId, TaskStatus};
use counterstep_kernel::client;
use counterstep_kernel::status::progress::progress_of;
use counterstep_kernel::turn::{TurnEnd, turn};
use counterstep_macros::distributed_task;
use counterstep_steps::prelude::*;
use counterstep_steps::{CancelReason, CancelToken};
use counterstep_testkit::many_tasks::{Site, eventually};
use counterstep_testkit::{Form, Harness};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

/// What a section does once it has read its file and begun to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Then {
    /// It finishes its file.
    Finish,
    /// It reads its file again and again, with no look at its step.
    ReadOn,
    /// It writes on, likewise.
    WriteOn,
    /// It makes an archive of its file again and again, in place of its own.
    ZipOn,
    Fail,
    Panic,
}

#[derive(Debug, Serialize, Deserialize)]
struct Wanted {
    then: Then,
    files: Vec<UploadedFile>,
}

/// Where the section of a task writes, and how it has ended.
#[derive(Debug, Clone)]
struct Seen {
    draft: PathBuf,
    ended: Option<Result<(), String>>,
}

/// Of each attempt of a task's section, in the order in which they began.
static SEEN: Mutex<BTreeMap<TaskId, Vec<Seen>>> = Mutex::new(BTreeMap::new());

fn attempts(task: TaskId) -> Vec<Seen> {
    let seen = SEEN.lock().expect("what was seen");
    seen.get(&task).cloned().unwrap_or_default()
}

fn seen(task: TaskId) -> Option<Seen> {
    attempts(task).pop()
}

struct Copies;

#[distributed_task(name = "Copies", queue = "copies", cancellable)]
impl Copies {
    type Request = Wanted;
    type Response = u64;

    #[step(1, host = "api")]
    fn take_in(req: &Wanted) -> UploadMany {
        UploadMany::to("incoming", &req.files)
    }

    #[step(2, host = "worker", no_undo = "writes scratch only")]
    async fn copy(
        ctx: &StepContext,
        req: &Wanted,
        sources: &StoredFiles,
    ) -> StepResult<ScratchFile> {
        let (task, then) = (ctx.task_id(), req.then);
        let (draft, source) = (ctx.scratch("copy").await?, sources.0[0].clone());
        let began = Seen {
            draft: draft.path().to_owned(),
            ended: None,
        };
        let attempt = {
            let mut seen = SEEN.lock().expect("what was seen");
            let attempts = seen.entry(task).or_default();
            attempts.push(began);
            attempts.len() - 1
        };
        let copied = ctx.blocking(move |on| {
            let work = || {
                on.expect(source.size_bytes);
                if then == Then::ZipOn {
                    return on.zip(draft, &StoredFiles(vec![source; 50_000]));
                }
                let mut copy = on.writer(draft)?;
                io::copy(&mut on.reader(&source)?, &mut copy).transient("copying")?;
                match then {
                    Then::Finish | Then::ZipOn => {}
                    Then::ReadOn => loop {
                        io::copy(&mut on.reader(&source)?, &mut io::sink())
                            .transient("reading on")?;
                    },
                    Then::WriteOn => loop {
                        // In one place: it fills no disk.
                        copy.seek(SeekFrom::Start(0)).transient("writing on")?;
                        copy.write_all(b"x").transient("writing on")?;
                    },
                    Then::Fail => return Err(StepError::permanent("as it was asked to")),
                    Then::Panic => panic!("as it was asked to"),
                }
                copy.finish()
            };
            let ended = work();
            let result = ended.as_ref().map(|_| ()).map_err(ToString::to_string);
            if let Some(seen) = SEEN.lock().expect("what was seen").get_mut(&task) {
                seen[attempt].ended = Some(result);
            }
            ended
        });
        copied.await?.seal().await
    }

    fn respond(copy: &ScratchFile) -> u64 {
        copy.size_bytes
    }
}

const BYTES: usize = 100_000;

/// How long a shutdown lets a section go on, which reads or writes without a pause until then.
const DRAIN: Duration = Duration::from_millis(200);

async fn start(step_timeout: Duration) -> Site {
    let harness = Harness::embedded(only::<Copies>());
    let harness = harness.settings(|settings| {
        settings.step_timeout = step_timeout;
        settings.drain = DRAIN;
    });
    let mut site = harness.start().await;
    site.serve(4);
    site
}

async fn submit(site: &Site, then: Then) -> TaskId {
    let form = Form::new().field("then", serde_json::json!(then));
    site.submit(form.file("files", "a", vec![7; BYTES])).await
}

/// Waits until the section of an attempt has ended, and returns its error.
async fn stopped(task: TaskId) -> String {
    let ended = eventually("the section has ended", || async {
        attempts(task).into_iter().find_map(|seen| seen.ended)
    })
    .await;
    ended.expect_err("it goes on until it is stopped")
}

async fn assert_no_draft(task: TaskId) {
    let draft = seen(task).expect("it has begun").draft;
    eventually("the draft is gone", || async {
        (!draft.exists()).then_some(())
    })
    .await;
}

const LIMIT: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn a_section_makes_a_file_of_stored_files() {
    let mut site = start(LIMIT).await;
    let task = submit(&site, Then::Finish).await;
    let done = site.all_are(TaskStatus::Completed, &[task]).await;
    assert_eq!(done[0].task.response, Some(BYTES.into()));
    site.assert_invariants(&[task]).await;
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_section_reads_is_its_steps_progress() {
    let mut site = start(LIMIT).await;
    let task = submit(&site, Then::ReadOn).await;
    eventually("its progress", || async {
        let record = site.record(task).await;
        let progress = progress_of(&site.engine, &record).await?;
        let told = progress.steps.get("copy")?;
        (told.done >= BYTES as u64 && told.total == BYTES as u64).then_some(())
    })
    .await;
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_stops_a_section_that_reads_one_that_writes_and_one_that_zips() {
    let mut site = start(LIMIT).await;
    for then in [Then::ReadOn, Then::WriteOn, Then::ZipOn] {
        let task = submit(&site, then).await;
        eventually("the section has begun", || async { seen(task) }).await;
        let answer = client::cancel(&site.engine, task, "client").await;
        answer.expect("accepted");
        let ended = site.all_are(TaskStatus::Cancelled, &[task]).await;
        assert!(
            stopped(task).await.contains("the step has stopped"),
            "{then:?}"
        );
        // It has stopped by itself, and was not dropped at the end of its grace.
        let error = ended[0].steps[1].error.as_ref();
        assert_eq!(error.map(|it| it.class.as_str()), Some("cancelled"));
        assert_no_draft(task).await;
        site.assert_invariants(&[task]).await;
    }
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_section_stops_at_the_time_limit_of_its_attempt() {
    let mut site = start(Duration::from_millis(300)).await;
    let task = submit(&site, Then::ReadOn).await;
    let ended = site.all_are(TaskStatus::Failed, &[task]).await;
    let error = ended[0].steps[1].error.as_ref();
    assert_eq!(error.map(|it| it.class.as_str()), Some("timed_out"));
    assert!(stopped(task).await.contains("the step has stopped"));
    assert_no_draft(task).await;
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_section_stops_with_its_process_and_leaves_its_step_in_doubt() {
    let mut site = start(LIMIT).await;
    let task = submit(&site, Then::WriteOn).await;
    eventually("the section has begun", || async { seen(task) }).await;
    let record = site.record(task).await;
    assert_eq!(record.steps[1].status, StepStatus::Running);
    site.stop().await;
    assert!(stopped(task).await.contains("the step has stopped"));
    assert_no_draft(task).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_section_that_has_lost_its_lease_stops_while_its_successor_goes_on() {
    let form = Form::new().field("then", serde_json::json!(Then::WriteOn));
    let form = form.file("files", "a", vec![7; BYTES]);
    let harness = Harness::embedded(only::<Copies>());
    // The end that is looked for is never that of an attempt which a busy machine was too slow for.
    let harness = harness.settings(|settings| {
        settings.step_timeout = Duration::from_secs(600);
        settings.drain = DRAIN;
    });
    let task = harness.submit(form).await;
    let (first, second) = (CancelToken::new(), CancelToken::new());
    turn(&task.engine, Host::Api, task.id, &first).await;
    // Polled until its section runs, then left alone, like a process under SIGSTOP: no heartbeat. Its
    // section has a thread of its own and writes on.
    let mut paused = Box::pin(turn(&task.engine, Host::Worker, task.id, &first));
    while seen(task.id).is_none() {
        let _ = tokio::time::timeout(Duration::from_millis(10), &mut paused)
            .await
            .expect_err("it is still running");
    }
    task.clock.advance("1h");
    let mut successor = Box::pin(turn(&task.engine, Host::Worker, task.id, &second));
    while task.record().await.steps[1].attempts.0 < 2 {
        let _ = tokio::time::timeout(Duration::from_millis(10), &mut successor)
            .await
            .expect_err("it is still running");
    }
    let looks = async {
        assert_eq!(paused.await, TurnEnd::Lost);
        let told = stopped(task.id).await;
        assert!(told.contains("the step has stopped"), "{told}");
        second.cancel(CancelReason::Shutdown);
    };
    let (ended, ()) = futures::join!(successor, looks);
    let failure = task.record().await.task.failure;
    assert_eq!(ended, TurnEnd::GivenBack, "{failure:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_section_that_fails_or_panics_is_its_steps_failure_and_leaves_no_file() {
    let mut site = start(LIMIT).await;
    for (then, class) in [(Then::Fail, "permanent"), (Then::Panic, "panicked")] {
        let task = submit(&site, then).await;
        let ended = site.all_are(TaskStatus::Failed, &[task]).await;
        let error = ended[0].steps[1].error.as_ref().expect("an error");
        assert_eq!(error.class.as_str(), class);
        assert!(error.message.contains("as it was asked to"), "{error:?}");
        assert_no_draft(task).await;
        site.assert_invariants(&[task]).await;
    }
    site.stop().await;
}
