//! What makes a request with an idempotency key a repetition: that it was sent as the first one was, however its
//! type is read and written.

use crate::errand::only;
use crate::hints::under_key;
use counterstep_contracts::TaskStatus;
use counterstep_kernel::client::{RunAgain, SubmitError, Submitted, UploadSession, run_again};
use counterstep_kernel::{Engine, EngineSettings};
use counterstep_macros::distributed_task;
use counterstep_steps::{Registry, StepResult};
use counterstep_testkit::{Form, Harness, Site};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::Arc;

#[derive(Debug, Serialize, Deserialize)]
struct Article {
    /// Their order differs each time that they are read.
    tags: HashSet<String>,
}

struct Tag;

#[distributed_task(name = "Tag")]
impl Tag {
    type Request = Article;
    type Response = ();

    #[step(1, host = "worker")]
    #[pure]
    async fn count(req: &Article) -> StepResult<usize> {
        Ok(req.tags.len())
    }

    fn respond() {}
}

#[derive(Debug, Serialize, Deserialize)]
struct Parcel {
    city: String,
}

struct Ship;

#[distributed_task(name = "Ship")]
impl Ship {
    type Request = Parcel;
    type Response = ();

    #[step(1, host = "worker")]
    #[pure]
    async fn weigh(req: &Parcel) -> StepResult<usize> {
        Ok(req.city.len())
    }

    fn respond() {}
}

#[derive(Debug, Serialize, Deserialize)]
struct TrackedParcel {
    city: String,
    #[serde(default)]
    tracked: bool,
}

/// The same type in the next release.
struct ShipTracked;

#[distributed_task(name = "Ship")]
impl ShipTracked {
    type Request = TrackedParcel;
    type Response = ();

    #[step(1, host = "worker")]
    #[pure]
    async fn weigh(req: &TrackedParcel) -> StepResult<usize> {
        Ok(req.city.len() + usize::from(req.tracked))
    }

    fn respond() {}
}

#[derive(Debug, Serialize, Deserialize)]
struct Crate {
    weight: u32,
}

struct Weigh;

#[distributed_task(name = "Weigh")]
impl Weigh {
    type Request = Crate;
    type Response = ();

    #[step(1, host = "worker")]
    #[pure]
    async fn weigh(req: &Crate) -> StepResult<u32> {
        Ok(req.weight)
    }

    fn respond() {}
}

#[derive(Debug, Serialize, Deserialize)]
struct LabelledCrate {
    weight: String,
}

/// The same type in the next release, which takes `2 kg` as well.
struct WeighLabelled;

#[distributed_task(name = "Weigh")]
impl WeighLabelled {
    type Request = LabelledCrate;
    type Response = ();

    #[step(1, host = "worker")]
    #[pure]
    async fn weigh(req: &LabelledCrate) -> StepResult<usize> {
        Ok(req.weight.len())
    }

    fn respond() {}
}

async fn submit(engine: &Engine, body: &Value) -> Result<Submitted, SubmitError> {
    let task_type = *engine.registry.iter().next().expect("a task type");
    let mut session = UploadSession::begin(engine, task_type, under_key()).await?;
    session.body(body.clone())?;
    session.submit().await
}

/// A process of another release beside the first one.
fn released(site: &Site, registry: Registry) -> Engine {
    Engine::new(
        site.engine.ports.clone(),
        Arc::new(registry),
        EngineSettings::default(),
        "test",
    )
}

fn tags() -> Value {
    json!({ "tags": ["a", "b", "c", "d", "e", "f"] })
}

#[tokio::test]
async fn a_request_whose_type_has_no_order_of_its_own_is_repeated_as_it_was_sent() {
    let site = Harness::embedded(only::<Tag>()).start().await;
    let first = submit(&site.engine, &tags()).await.expect("accepted");
    for _ in 0..20 {
        let again = submit(&site.engine, &tags()).await.expect("accepted");
        assert!(again.replayed);
        assert_eq!(again.answer, first.answer);
    }
    let other = submit(&site.engine, &json!({ "tags": ["a"] })).await;
    assert!(matches!(other, Err(SubmitError::KeyMismatch)), "{other:?}");
}

#[tokio::test]
async fn a_release_with_one_more_optional_field_takes_repetitions_of_older_requests() {
    let site = Harness::embedded(only::<Ship>()).start().await;
    let next = released(&site, only::<ShipTracked>());
    let body = json!({ "city": "Bern" });
    let first = submit(&site.engine, &body).await.expect("accepted");
    let again = submit(&next, &body).await.expect("accepted");
    assert!(again.replayed);
    assert_eq!(again.answer, first.answer);
    let other = submit(&next, &json!({ "city": "Bern", "tracked": true })).await;
    assert!(matches!(other, Err(SubmitError::KeyMismatch)), "{other:?}");
}

#[tokio::test]
async fn a_release_with_another_type_of_a_field_takes_repetitions_of_older_forms() {
    let site = Harness::embedded(only::<Weigh>()).start().await;
    let next = released(&site, only::<WeighLabelled>());
    let send = async |engine: &Engine| {
        let task_type = *engine.registry.iter().next().expect("a task type");
        let mut session = UploadSession::begin(engine, task_type, under_key()).await?;
        session.text("weight", "2".to_owned())?;
        session.submit().await
    };
    let first = send(&site.engine).await.expect("accepted");
    let again = send(&next).await.expect("accepted");
    assert!(again.replayed);
    assert_eq!(again.answer, first.answer);
}

#[tokio::test]
async fn an_order_to_run_again_is_repeated_as_it_was_given() {
    let task = Harness::embedded(only::<Tag>())
        .submit(Form::new().field("tags", tags()["tags"].clone()))
        .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    let order = || RunAgain {
        from: None,
        edit: None,
        actor: "operator".to_owned(),
        note: "the index was lost".to_owned(),
        key: Some("key".to_owned()),
        traceparent: None,
        bulk: None,
    };
    let first = run_again(&task.engine, task.id, order())
        .await
        .expect("a new task");
    for _ in 0..20 {
        let again = run_again(&task.engine, task.id, order())
            .await
            .expect("the same");
        assert!(again.replayed);
        assert_eq!(again.answer, first.answer);
    }
}
