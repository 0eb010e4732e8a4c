//! Hints about idempotency keys: whether they are right, wrong, or do not come, a key makes one
//! task, and a repetition gets the first answer.

use crate::errand::only;
use async_trait::async_trait;
use counterstep_contracts::{FileName, Labels, Tenant};
use counterstep_kernel::admission::disable::{TypeDecision, disable_type};
use counterstep_kernel::client::{
    BatchItem, Submission, SubmitError, Submitted, UploadSession, submit_all,
};
use counterstep_kernel::ports::{HintError, Hints};
use counterstep_kernel::{Engine, EngineSettings};
use counterstep_macros::distributed_task;
use counterstep_steps::{StepContext, StepResult, StoredFiles, UploadMany, UploadedFile};
use counterstep_testkit::many_tasks::Site;
use counterstep_testkit::{Form, Harness, TestTask};
use futures::StreamExt;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Parcels {
    #[serde(default)]
    files: Vec<UploadedFile>,
    #[serde(default)]
    note: String,
}

pub(crate) struct Post;

#[distributed_task(name = "Post", queue = "post")]
impl Post {
    type Request = Parcels;
    type Response = u32;

    #[step(1, host = "api")]
    fn take_in(req: &Parcels) -> UploadMany {
        UploadMany::to("parcels", &req.files)
    }

    #[step(2, host = "worker")]
    #[pure]
    async fn count(_ctx: &StepContext, parcels: &StoredFiles) -> StepResult<u32> {
        Ok(u32::try_from(parcels.len()).unwrap_or(u32::MAX))
    }

    fn respond(take_in: &StoredFiles) -> u32 {
        u32::try_from(take_in.len()).unwrap_or(u32::MAX)
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Pair {
    left: Vec<UploadedFile>,
    right: Vec<UploadedFile>,
    note: String,
}

struct PostPair;

#[distributed_task(name = "PostPair", queue = "post")]
impl PostPair {
    type Request = Pair;
    type Response = u32;

    #[step(1, host = "api")]
    fn take_in(req: &Pair) -> UploadMany {
        UploadMany::to("parcels", req.left.iter().chain(&req.right))
    }

    fn respond(take_in: &StoredFiles) -> u32 {
        u32::try_from(take_in.len()).unwrap_or(u32::MAX)
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Letter {
    text: String,
}

struct PostOne;

#[distributed_task(name = "PostOne", queue = "post", at_once = 1, beyond = "refuse")]
impl PostOne {
    type Request = Letter;
    type Response = ();

    #[step(1, host = "worker")]
    #[pure]
    async fn weigh(req: &Letter) -> StepResult<usize> {
        Ok(req.text.len())
    }

    fn respond() {}
}

/// Says this about every key.
#[derive(Debug)]
enum Says {
    Seen,
    New,
    Error,
    Nothing,
}

#[async_trait]
impl Hints for Says {
    async fn seen(&self, _: &str) -> Result<bool, HintError> {
        match self {
            Self::Seen => Ok(true),
            Self::New => Ok(false),
            Self::Error => Err(HintError("planted".to_owned())),
            Self::Nothing => std::future::pending().await,
        }
    }

    async fn remember(&self, _: &str, _: Duration) -> Result<(), HintError> {
        match self {
            Self::Seen | Self::New => Ok(()),
            Self::Error => Err(HintError("planted".to_owned())),
            Self::Nothing => std::future::pending().await,
        }
    }

    async fn bump(&self, _: &str, _: Duration) -> Result<u64, HintError> {
        Err(HintError("not asked here".to_owned()))
    }

    async fn get(&self, _: &str) -> Result<Option<String>, HintError> {
        Err(HintError("not asked here".to_owned()))
    }

    async fn set(&self, _: &str, _: &str, _: Duration) -> Result<(), HintError> {
        Err(HintError("not asked here".to_owned()))
    }

    async fn swap(
        &self,
        _: &str,
        _: Option<&str>,
        _: &str,
        _: Duration,
    ) -> Result<bool, HintError> {
        Err(HintError("not asked here".to_owned()))
    }
}

async fn start() -> TestTask {
    Harness::embedded(only::<Post>())
        .submit(Form::new().file("files", "first.txt", "1"))
        .await
}

/// A submission under the key `key`.
pub(crate) fn under_key() -> Submission {
    Submission {
        tenant: Tenant::default(),
        actor: "client".to_owned(),
        key: Some("key".to_owned()),
        traceparent: None,
        webhook: None,
        labels: Labels::new(),
    }
}

/// Submits files of these contents under the key `key`.
pub(crate) async fn send(
    engine: &Engine,
    note: &str,
    files: &[&'static str],
) -> Result<Submitted, SubmitError> {
    let task_type = *engine.registry.iter().next().expect("a task type");
    let mut session = UploadSession::begin(engine, task_type, under_key()).await?;
    let sent = async {
        session.field("note", note.into())?;
        for bytes in files {
            let body = futures::stream::iter([Ok(bytes.as_bytes().into())]).boxed();
            session
                .file(
                    "files",
                    FileName::parse("note.txt").expect("a name"),
                    "text/plain",
                    body,
                )
                .await?;
        }
        session.submit().await
    };
    match sent.await {
        Ok(submitted) => Ok(submitted),
        Err(error) => {
            session.abandon("the test's request failed").await;
            Err(error)
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_a_hint_says_a_repetition_gets_the_first_answer_and_stores_nothing() {
    for says in [Says::Seen, Says::New, Says::Error, Says::Nothing] {
        let mut task = start().await;
        let case = format!("{says:?}");
        task.engine.ports.hints = Arc::new(says);
        let first = send(&task.engine, "", &["one", "two"])
            .await
            .expect("accepted");
        assert!(!first.replayed, "{case}");
        let objects = task.objects().await.len();
        let again = send(&task.engine, "", &["one", "two"])
            .await
            .expect("accepted");
        assert!(again.replayed, "{case}");
        assert_eq!(again.answer, first.answer, "{case}");
        let other = send(&task.engine, "", &["one", "three"]).await;
        assert!(
            matches!(other, Err(SubmitError::KeyMismatch)),
            "{case}: {other:?}"
        );
        let other = send(&task.engine, "another", &["one", "two"]).await;
        assert!(
            matches!(other, Err(SubmitError::KeyMismatch)),
            "{case}: {other:?}"
        );
        assert_eq!(
            task.objects().await.len(),
            objects,
            "{case}: a repetition stores nothing"
        );
    }
}

#[tokio::test]
async fn a_request_without_a_file_is_refused_at_the_field_that_takes_one() {
    let refused = async |registry, body| {
        let site = Harness::embedded(registry).start().await;
        let task_type = *site.engine.registry.iter().next().expect("a task type");
        let session = UploadSession::begin(&site.engine, task_type, under_key()).await;
        let mut session = session.expect("it begins");
        session.body(body).expect("a request");
        let refused = session.submit().await;
        session.abandon("the test's request failed").await;
        match refused {
            Err(SubmitError::Invalid(error)) => error,
            other => panic!("{other:?}"),
        }
    };
    let error = refused(only::<Post>(), json!({"note": "a"})).await;
    assert_eq!(error.to_string(), "send at least one file at `files`");
    // It may be either field.
    let body = json!({"left": [], "right": [], "note": "a"});
    let error = refused(only::<PostPair>(), body).await;
    assert_eq!(error.to_string(), "send at least one file");
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_requests_at_once_with_one_key_make_one_task_without_any_hint() {
    let mut task = start().await;
    task.engine.ports.hints = Arc::new(Says::New);
    let sent = futures::future::join_all((0..10).map(|_| send(&task.engine, "", &["one"]))).await;
    let made: Vec<_> = sent
        .iter()
        .filter(|sent| sent.as_ref().is_ok_and(|sent| !sent.replayed))
        .collect();
    assert_eq!(made.len(), 1, "{sent:?}");
    for sent in &sent {
        assert!(
            matches!(sent, Ok(_) | Err(SubmitError::InProgress)),
            "{sent:?}"
        );
    }
    let again = send(&task.engine, "", &["one"]).await.expect("accepted");
    assert_eq!(&again.answer, &made[0].as_ref().expect("the first").answer);
}

/// Submits a letter under the key `key`.
async fn post_one(engine: &Engine, text: &str) -> Result<Submitted, SubmitError> {
    let task_type = *engine.registry.iter().next().expect("a task type");
    let mut session = UploadSession::begin(engine, task_type, under_key()).await?;
    session.body(json!({ "text": text }))?;
    session.submit().await
}

/// The first letter is under way, and no hint knows its key: the process has just started, or another one took it.
async fn first_letter(change: impl FnOnce(&mut EngineSettings)) -> (Site, Submitted) {
    let mut site = Harness::embedded(only::<PostOne>())
        .settings(change)
        .start()
        .await;
    site.engine.ports.hints = Arc::new(Says::New);
    let first = post_one(&site.engine, "a").await.expect("accepted");
    assert!(!first.replayed);
    (site, first)
}

#[tokio::test]
async fn a_repetition_is_not_refused_for_the_place_that_its_own_task_has() {
    let (site, first) = first_letter(|_| {}).await;
    let again = post_one(&site.engine, "a").await.expect("accepted");
    assert!(again.replayed);
    assert_eq!(again.answer, first.answer);
    let other = post_one(&site.engine, "b").await;
    assert!(matches!(other, Err(SubmitError::KeyMismatch)), "{other:?}");
}

#[tokio::test]
async fn a_repetition_in_a_batch_is_not_refused_for_the_place_that_its_own_task_has() {
    let (site, first) = first_letter(|_| {}).await;
    let task_type = *site.engine.registry.iter().next().expect("a task type");
    let item = |key: &str| BatchItem {
        key: Some(key.to_owned()),
        labels: Labels::new(),
        webhook: None,
        body: json!({ "text": "a" }),
    };
    let items = vec![item("key"), item("another")];
    let outcomes = submit_all(&site.engine, task_type, under_key(), items)
        .await
        .expect("the store answers");
    let again = outcomes[0].as_ref().expect("accepted");
    assert!(again.replayed);
    assert_eq!(again.answer, first.answer);
    assert!(
        matches!(outcomes[1], Err(SubmitError::TooManyAtOnce(_))),
        "{outcomes:?}"
    );
}

#[tokio::test]
async fn a_repetition_is_not_refused_because_many_tasks_wait() {
    let (site, first) = first_letter(|settings| settings.max_waiting = Some(1)).await;
    let again = post_one(&site.engine, "a").await.expect("accepted");
    assert!(again.replayed);
    assert_eq!(again.answer, first.answer);
}

#[tokio::test]
async fn a_repetition_is_not_refused_because_its_type_is_disabled() {
    let (site, first) = first_letter(|_| {}).await;
    let by = TypeDecision {
        actor: "operator",
        name: None,
        note: "no more letters",
    };
    let disabled = disable_type(&site.engine, "PostOne", by).await;
    disabled.expect("it is disabled");
    let again = post_one(&site.engine, "a").await.expect("accepted");
    assert!(again.replayed);
    assert_eq!(again.answer, first.answer);
    let another = Submission {
        key: Some("another".to_owned()),
        ..under_key()
    };
    let task_type = *site.engine.registry.iter().next().expect("a task type");
    let another = UploadSession::begin(&site.engine, task_type, another).await;
    assert!(
        matches!(another, Err(SubmitError::Disabled(_))),
        "{another:?}"
    );
}
