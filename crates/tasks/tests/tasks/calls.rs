//! What a service is sent: keys, trace, credentials; from steps that are calls, from code that
//! calls, and from undos.

use async_trait::async_trait;
use counterstep_macros::distributed_task;
use counterstep_steps::contracts::TaskStatus;
use counterstep_steps::ports::{HttpServices, ServiceAnswer, ServiceError, ServiceRequest};
use counterstep_steps::{
    HttpCall, Registry, RetryPolicy, StepContext, StepError, StepResult, UndoResult,
};
use counterstep_testkit::services::Services;
use counterstep_testkit::{Form, Harness};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

/// What `echo` says it was sent.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Sent {
    method: String,
    uri: String,
    headers: BTreeMap<String, String>,
    body: String,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Words {
    text: String,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Both(Sent, Sent);

/// The service answers on its own account.
pub(crate) struct Echoes;

#[distributed_task(name = "Echoes", queue = "echoes")]
impl Echoes {
    type Request = Words;
    type Response = Vec<Value>;

    #[step(1, host = "worker", undo = take_back)]
    fn say(words: &Words) -> HttpCall<Sent> {
        HttpCall::post("echo", "/200")
            .query("text", &words.text)
            .json(words)
    }

    async fn take_back(ctx: &StepContext, sent: Option<Sent>, words: &Words) -> UndoResult {
        let key = sent.and_then(|sent| sent.headers.get("idempotency-key").cloned());
        let again: Sent = ctx.call(HttpCall::put("echo", "/200").json(words)).await?;
        let own = again.headers.get("idempotency-key");
        if own != key.map(|key| format!("{key}:undo")).as_ref() || own != Some(&ctx.effect_key()) {
            return Err(StepError::permanent(format_args!(
                "{own:?} is the key of another undo"
            )));
        }
        Ok(())
    }

    #[step(2, host = "worker", no_undo = "reads only")]
    async fn ask(ctx: &StepContext) -> StepResult<Both> {
        let first = ctx.call(HttpCall::get("echo", "/201")).await?;
        ctx.call(HttpCall::<()>::delete("echo", "/404").accepting(404))
            .await?;
        Ok(Both(
            first,
            ctx.call(HttpCall::delete("echo", "/200")).await?,
        ))
    }

    fn respond(say: &Sent, both: &Both) -> Vec<Value> {
        [say, &both.0, &both.1]
            .map(|sent| serde_json::to_value(sent).unwrap_or_default())
            .into()
    }
}

fn harness(services: &Services) -> Harness {
    Harness::embedded(Registry::new().with::<Echoes>()).services(services.http_services())
}

fn words() -> Form {
    Form::new().field("text", "a&b=ü /..")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_carries_the_effect_key_unless_it_only_reads_and_values_stay_values() {
    let services = Services::start().await;
    let task = harness(&services).submit(words()).await;
    assert_eq!(
        task.run_to_rest().await,
        TaskStatus::Completed,
        "{}",
        task.trail().await
    );
    let response = task.record().await.task.response.expect("a response");
    let [say, get, delete] = &response.as_array().expect("a list")[..] else {
        panic!("{response}")
    };
    let id = task.id;
    assert_eq!(say["headers"]["idempotency-key"], format!("{id}:say"));
    assert_eq!(say["uri"], "/echo/200?text=a%26b%3D%C3%BC%20%2F..");
    assert_eq!(say["headers"]["content-type"], "application/json");
    assert_eq!(
        serde_json::from_str::<Value>(say["body"].as_str().unwrap()).unwrap()["text"],
        "a&b=ü /.."
    );
    assert_eq!(
        (&get["method"], &get["headers"]["idempotency-key"]),
        (&"GET".into(), &Value::Null)
    );
    assert_eq!(delete["headers"]["idempotency-key"], format!("{id}:ask"));
    // What a service repeats of the credentials is stored nowhere.
    assert_eq!(say["headers"]["authorization"], "Bearer [secret]");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undo_that_calls_has_a_key_of_its_own() {
    let services = Services::start().await;
    let task = harness(&services).fail_at("ask").submit(words()).await;
    assert_eq!(
        task.run_to_rest().await,
        TaskStatus::Failed,
        "{}",
        task.trail().await
    );
    task.assert_trail("say ok, ask failed, ask waived, say undone, failed")
        .await;
}

/// Says that it is pure, and is not.
pub(crate) struct Hasty;

#[distributed_task(name = "Hasty", queue = "hasty")]
impl Hasty {
    type Request = Words;
    type Response = usize;

    #[step(1, host = "api")]
    #[pure]
    async fn look(ctx: &StepContext) -> StepResult<Sent> {
        ctx.call(HttpCall::get("echo", "/200")).await
    }

    #[step(2, host = "api")]
    #[pure]
    async fn say(ctx: &StepContext, sent: &Sent) -> StepResult<usize> {
        ctx.call(HttpCall::<()>::post("echo", "/200")).await?;
        Ok(sent.method.len())
    }

    fn respond(say: &usize) -> usize {
        *say
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pure_step_reads_from_services_and_does_nothing_to_them() {
    let services = Services::start().await;
    let harness =
        Harness::embedded(Registry::new().with::<Hasty>()).services(services.http_services());
    let task = harness.submit(words()).await;
    assert_eq!(
        task.run_to_rest().await,
        TaskStatus::Failed,
        "{}",
        task.trail().await
    );
    task.assert_trail("look ok, say failed, failed").await;
    let failure = task.record().await.task.failure.expect("a reason");
    assert!(
        failure.message.contains("only reads from services"),
        "{failure:?}"
    );
}

/// One call, tried twice, with a way back.
pub(crate) struct Tries;

const TWICE: RetryPolicy = RetryPolicy::constant("1ms").max_retries(1).jitter(false);

#[distributed_task(name = "Tries", queue = "tries")]
impl Tries {
    type Request = Words;
    type Response = usize;

    #[step(1, host = "worker", retry = TWICE, undo = unsay)]
    fn say(words: &Words) -> HttpCall<usize> {
        HttpCall::post("echo", "/say").json(words)
    }

    fn unsay(ctx: &StepContext) -> HttpCall<()> {
        HttpCall::delete("echo", "/say").segment(ctx.step_key())
    }

    fn respond(say: &usize) -> usize {
        *say
    }
}

/// A service with which requests come to these ends, one after the other; each later one is done.
#[derive(Debug)]
struct Ends(Mutex<VecDeque<ServiceError>>);

#[async_trait]
impl HttpServices for Ends {
    async fn call(&self, _: ServiceRequest) -> Result<ServiceAnswer, ServiceError> {
        let end = self.0.lock().unwrap().pop_front();
        let done = ServiceAnswer {
            status: 200,
            retry_after: None,
            body: "7".into(),
            cut: false,
        };
        end.map_or(Ok(done), Err)
    }

    fn knows(&self, _: &str) -> bool {
        true
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_may_have_been_sent_is_undone() {
    let unknown = || ServiceError::Unknown("echo".to_owned());
    let unsent = || ServiceError::NotSent("connection refused".to_owned());
    let lost = || ServiceError::Unanswered("connection reset".to_owned());
    for (ends, attempts, undos) in [
        (vec![unknown()], 1, 0),
        (vec![unsent(), unsent()], 2, 0),
        (vec![unsent(), unknown()], 2, 0),
        (vec![unsent(), lost()], 2, 1),
        (vec![lost(), unsent()], 2, 1),
        (vec![lost(), lost()], 2, 1),
    ] {
        let words = format!("{ends:?}");
        let services = Arc::new(Ends(Mutex::new(ends.into())));
        let task = Harness::embedded(Registry::new().with::<Tries>())
            .services(services)
            .submit(self::words())
            .await;
        assert_eq!(
            task.run_to_rest().await,
            TaskStatus::Failed,
            "{words}: {}",
            task.trail().await
        );
        let step = task.record().await.steps.remove(0);
        assert_eq!(
            (step.attempts.0, step.undo_attempts.0),
            (attempts, undos),
            "{words}: {}",
            task.trail().await
        );
        task.assert_invariants().await;
    }
    // The next attempt arrives.
    let services = Arc::new(Ends(Mutex::new([unsent()].into())));
    let task = Harness::embedded(Registry::new().with::<Tries>())
        .services(services)
        .submit(words())
        .await;
    assert_eq!(
        task.run_to_rest().await,
        TaskStatus::Completed,
        "{}",
        task.trail().await
    );
    task.assert_invariants().await;
}
