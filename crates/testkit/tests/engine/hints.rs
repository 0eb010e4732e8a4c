//! Hints about idempotency keys: whether they are right, wrong, or do not come, a key makes one
//! task, and a repetition gets the first answer.

use crate::errand::only;
use async_trait::async_trait;
use counterstep_contracts::{FileName, Labels, Tenant};
use counterstep_kernel::Engine;
use counterstep_kernel::client::{Submission, SubmitError, Submitted, UploadSession};
use counterstep_kernel::ports::{HintError, Hints};
use counterstep_macros::distributed_task;
use counterstep_steps::{StepContext, StepResult, StoredFiles, UploadMany, UploadedFile};
use counterstep_testkit::{Form, Harness, TestTask};
use futures::StreamExt;
use serde::{Deserialize, Serialize};
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
