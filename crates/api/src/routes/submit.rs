//! `POST /api/tasks/{type}`: a request becomes a task.

use super::answer::Answer;
use super::task::{self, Shown, Wait};
use super::upload;
use crate::app_state::Api;
use crate::body::Arriving;
use crate::caller::caller_of;
use crate::form::put_parts;
use crate::headers::{BodyKind, body_kind, content_length, idempotency_key, traceparent, webhook};
use crate::label_header;
use crate::long_poll::{Rests, WaitFor};
use crate::mount_path::address;
use crate::problem::outcome_of;
use crate::request_json;
use crate::request_span;
use actix_web::http::header::{CONTENT_LOCATION, HeaderName, HeaderValue, LOCATION, RETRY_AFTER};
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_kernel::Engine;
use counterstep_kernel::client::{self, Submission, Submitted, UploadSession};
use counterstep_operations::{Caller, Refused};
use counterstep_steps::TaskType;
use futures::FutureExt;
use futures::future::{BoxFuture, Either, ready, select};
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::oneshot;
use tracing::Span;

/// A request that was accepted.
struct Taken {
    submitted: Submitted,
    /// The wait for the rest of its task, from before there was one; `None`: the client does not
    /// wait.
    begun: Option<WaitFor>,
}

/// A client that waits for the rest of its task.
struct Waits {
    api: Arc<Api>,
    caller: Caller,
    wait: Wait,
}

/// What the answer has.
struct Answered {
    submitted: Submitted,
    wait: Option<Wait>,
    /// The task, where the client waits and it has come to rest in time.
    at_rest: Option<Shown>,
}

pub(super) async fn post(
    api: web::Data<Api>,
    request: HttpRequest,
    payload: web::Payload,
) -> Answer {
    let task_type = super::address::by_route(&api, &request)?;
    let taken = take(&api, &request, payload, task_type).await;
    if let Err(refused) = &taken {
        let outcome = outcome_of(refused.problem());
        api.engine.observe_answer(&task_type, outcome);
    }
    Ok(answer(&request, taken?))
}

/// Reads the request and submits it, and waits for its task as the client asks.
async fn take(
    api: &web::Data<Api>,
    request: &HttpRequest,
    payload: web::Payload,
    task_type: TaskType,
) -> Result<Answered, Refused> {
    let wait = Wait::of(request)?;
    let caller = caller_of(request)?;
    let submission = Submission {
        actor: caller.actor("client"),
        tenant: caller.tenant.clone(),
        key: idempotency_key(request)?,
        traceparent: api
            .engine
            .traceparent_of_submission(traceparent(request.headers())),
        webhook: webhook(api, request)?,
        labels: label_header::labels(request)?,
    };
    let announced = content_length(request);
    let waits = wait.map(|wait| Waits {
        api: api.clone().into_inner(),
        caller: caller.clone(),
        wait,
    });
    let rests = wait.is_some().then(|| api.waiting.rests().clone());
    let (engine, span) = (api.engine.clone(), request_span::traced(request));
    let (submitted, at_rest) = match body_kind(request)? {
        BodyKind::Json => {
            let arriving = Arriving::new(api, payload);
            let body = request_json::parse(
                &arriving
                    .whole(announced, api.settings.max_json_bytes)
                    .await?,
            )?;
            let taking = submit(engine, task_type, submission, rests, span, |session| {
                ready(session.body(body).map_err(Refused::from)).boxed()
            });
            // It waits where it was submitted: each wake-up of a thread of the server costs a system call.
            let (_client, gone) = oneshot::channel::<()>();
            let taking = async move {
                let Taken { submitted, begun } = taking.await?;
                let at_rest = match select(pin!(at_rest(waits, &submitted, begun)), gone).await {
                    Either::Left((at_rest, _)) => at_rest,
                    Either::Right(_) => None,
                };
                Ok((submitted, at_rest))
            };
            api.finish("taking a JSON request", taking).await?
        }
        BodyKind::Form { boundary } => {
            let taking = |form| {
                submit(engine, task_type, submission, rests, span, |session| {
                    put_parts(session, form).boxed()
                })
            };
            let Taken { submitted, begun } =
                upload::receive(api, &caller, payload, announced, &boundary, taking).await?;
            let at_rest = at_rest(waits, &submitted, begun).await;
            (submitted, at_rest)
        }
    };
    Ok(Answered {
        submitted,
        wait,
        at_rest,
    })
}

/// The task that was submitted, where the client waits and it comes to rest in time.
async fn at_rest(
    waits: Option<Waits>,
    submitted: &Submitted,
    begun: Option<WaitFor>,
) -> Option<Shown> {
    let Waits { api, caller, wait } = waits?;
    // A task of uploads alone is at rest by now: it is shown at once.
    let begun = begun.filter(|_| !submitted.answer.status.is_at_rest());
    task::at_rest(&api, &caller, submitted, wait, begun).await
}

/// Submits a request, which `put` puts into the upload session. `rests`: subscribe here if the client waits for the end.
/// `span`: that of the request, for traces.
async fn submit(
    engine: Engine,
    task_type: TaskType,
    submission: Submission,
    rests: Option<Rests>,
    span: Span,
    put: impl for<'a> FnOnce(&'a mut UploadSession) -> BoxFuture<'a, Result<(), Refused>>,
) -> Result<Taken, Refused> {
    let mut begun = None;
    let submitted = client::take(&engine, task_type, submission, |session| {
        begun = rests.map(|rests| rests.of(session.task_id()));
        put(session)
    });
    let submitted = submitted.await?;
    engine.observe_answer(&task_type, submitted.outcome());
    request_span::has_submitted(&span, task_type.decl.name, submitted.answer.task_id);
    Ok(Taken { submitted, begun })
}

/// The answer to a request that was taken, with the task where that has come to rest.
fn answer(
    request: &HttpRequest,
    Answered {
        submitted,
        wait,
        at_rest,
    }: Answered,
) -> HttpResponse {
    let is_shown = at_rest.is_some();
    let mut answer = match at_rest {
        Some(shown) => shown.answer(request, wait),
        None => accepted(&submitted, wait),
    };
    answer = located(request, answer, &submitted);
    let headers = answer.headers_mut();
    // The body is what this address shows.
    if let Some(location) = headers.get(LOCATION).filter(|_| is_shown).cloned() {
        headers.insert(CONTENT_LOCATION, location);
    }
    answer
}

/// The answer with the address of the task, and whether it is that of an earlier request.
pub(super) fn located(
    request: &HttpRequest,
    mut answer: HttpResponse,
    submitted: &Submitted,
) -> HttpResponse {
    let headers = answer.headers_mut();
    let location = address(request, &format!("/api/tasks/{}", submitted.answer.task_id));
    if let Ok(location) = HeaderValue::from_str(&location) {
        headers.insert(LOCATION, location);
    }
    if submitted.replayed {
        headers.insert(
            HeaderName::from_static("idempotency-replayed"),
            HeaderValue::from_static("true"),
        );
    }
    answer
}

fn accepted(submitted: &Submitted, wait: Option<Wait>) -> HttpResponse {
    let mut answer = HttpResponse::Accepted();
    answer.insert_header((RETRY_AFTER, "1"));
    if let Some(wait) = wait {
        wait.applied(&mut answer);
    }
    answer.json(&submitted.answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::{self, Table};
    use crate::settings::ApiSettings;
    use actix_web::App;
    use actix_web::dev::Service;
    use actix_web::test::{TestRequest, init_service};
    use counterstep_macros::distributed_task;
    use counterstep_steps::{CancelToken, Registry, StepResult};
    use counterstep_testkit::Harness;
    use counterstep_testkit::many_tasks::eventually;
    use serde::{Deserialize, Serialize};

    #[derive(Serialize, Deserialize)]
    struct Nothing {}

    struct Idle;

    #[distributed_task(queue = "idle")]
    impl Idle {
        type Request = Nothing;
        type Response = ();

        #[step(1, host = "worker", no_undo = "it does nothing")]
        async fn wait() -> StepResult<()> {
            Ok(())
        }

        fn respond() {}
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_wait_for_a_task_ends_with_its_client() {
        // Without a worker.
        let site = Harness::embedded(Registry::new().with::<Idle>())
            .start()
            .await;
        let settings = ApiSettings::default();
        let table = web::Data::new(Table::of(settings.beside.operations));
        let api = Api::new(site.engine.clone(), settings, CancelToken::new());
        let api = web::Data::new(api);
        let app = App::new().app_data(api.clone());
        let app = app.configure(|config| routes::configure(config, &api, &table));
        let service = init_service(app).await;
        let request = TestRequest::post()
            .uri("/api/tasks/idle?wait=60s")
            .set_json(Nothing {});
        let waited_for = async |number: usize| {
            let look = async || (api.waiting.tasks() == number).then_some(());
            eventually("the wait begins and ends", look).await;
        };
        let answer = service.call(request.to_request());
        let is_taken = waited_for(1);
        match select(pin!(answer), pin!(is_taken)).await {
            Either::Left(_) => panic!("it was answered before its task was at rest"),
            Either::Right(((), _dropped)) => {}
        }
        waited_for(0).await;
    }
}
