//! `POST /api/tasks/{type}`: a request becomes a task.

use super::answer::Answer;
use super::task::{self, Wait};
use crate::app_state::Api;
use crate::body::Arriving;
use crate::caller::caller_of;
use crate::form::{Form, Limits, Sent};
use crate::headers::{BodyKind, body_kind, content_length, idempotency_key, traceparent, webhook};
use crate::intake::{self, Taken};
use crate::label_header;
use crate::mount_path::address;
use crate::problem::{outcome_of, too_large};
use crate::request_json;
use crate::request_span;
use crate::shares::Share;
use actix_web::http::header::{CONTENT_LOCATION, HeaderName, HeaderValue, LOCATION, RETRY_AFTER};
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_contracts::ProblemCode;
use counterstep_kernel::client::{Submission, Submitted};
use counterstep_operations::{Caller, Refused, unavailable};
use counterstep_steps::TaskType;
use futures::future::{Either, select};
use std::pin::pin;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

/// Maximum number of chunks on their way from the connection to the intake. A chunk is at most 128 KiB, the
/// server's read buffer, so with the parser's own one an upload holds well under a megabyte.
const CHUNKS: usize = 4;

pub(super) async fn post(
    api: web::Data<Api>,
    request: HttpRequest,
    payload: web::Payload,
) -> Answer {
    let task_type = super::address::by_route(&api, &request)?;
    let taken = take(&api, &request, payload, task_type).await;
    let outcome = match &taken {
        Ok((_, taken)) => taken.submitted.outcome(),
        Err(refused) => outcome_of(refused.problem()),
    };
    api.engine.observe_answer(&task_type, outcome);
    let (wait, taken) = taken?;
    let task = taken.submitted.answer.task_id;
    request_span::has_submitted(&request, task_type.decl.name, task);
    Ok(answer(&api, &request, wait, taken).await)
}

/// Reads the request and submits it; and how the client waits for its task.
async fn take(
    api: &Api,
    request: &HttpRequest,
    payload: web::Payload,
    task_type: TaskType,
) -> Result<(Option<Wait>, Taken), Refused> {
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
    let rests = wait.is_some().then(|| api.waiting.rests().clone());
    let taken = match body_kind(request)? {
        BodyKind::Json => {
            let arriving = Arriving::new(api, payload);
            let body = request_json::parse(
                &arriving
                    .whole(announced, api.settings.max_json_bytes)
                    .await?,
            )?;
            let intake = intake::of_json(api.engine.clone(), task_type, submission, body, rests);
            api.finish("taking a JSON request", intake).await?
        }
        BodyKind::Form { boundary } => {
            let limit = api.settings.max_form_bytes;
            if announced.is_some_and(|length| length > limit) {
                return Err(form_too_large(limit));
            }
            let share = share(api, &caller)?;
            let (to, from) = mpsc::channel(CHUNKS);
            let form = Form::new(&boundary, from, Limits::of(&api.settings));
            let intake = intake::of_form(api.engine.clone(), task_type, submission, form, rests);
            // Until the intake has cleaned up, where the client goes away.
            let intake = async move {
                let taken = intake.await;
                drop(share);
                taken
            };
            upload(api, payload, to, intake).await?
        }
    };
    Ok((wait, taken))
}

/// The answer to a request that was taken, at once or when its task is at rest.
async fn answer(
    api: &Api,
    request: &HttpRequest,
    wait: Option<Wait>,
    Taken {
        submitted,
        wait: begun,
    }: Taken,
) -> HttpResponse {
    // A task of uploads alone is at rest by now: it is shown at once.
    let begun = begun.filter(|_| !submitted.answer.status.is_at_rest());
    let at_rest = match wait {
        Some(wait) => task::at_rest(api, request, &submitted, wait, begun).await,
        None => None,
    };
    let is_shown = at_rest.is_some();
    let mut answer = at_rest.unwrap_or_else(|| accepted(&submitted, wait));
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

/// A place among the caller's uploads.
fn share(api: &Api, caller: &Caller) -> Result<Share, Refused> {
    api.uploads.take(caller).ok_or_else(|| {
        let detail = format!(
            "the caller sends {} forms at this moment and may send no more: send this one when another has its answer",
            api.uploads.most
        );
        Refused::new(ProblemCode::TooManyRequests, detail).retry_after(1)
    })
}

/// Passes the body on to the intake, which is a task of its own: when the client goes away, this
/// future is dropped, the channel closes, and the intake cleans up.
async fn upload(
    api: &Api,
    payload: web::Payload,
    to: mpsc::Sender<Sent>,
    intake: impl Future<Output = Result<Taken, Refused>> + Send + 'static,
) -> Result<Taken, Refused> {
    let intake = api.finish("taking a form", intake);
    let pump = pump(Arriving::new(api, payload), to, api.settings.max_form_bytes);
    // The intake comes first: it starts to run when it is polled. Once it has its answer, this
    // does not wait for the rest of a body that may never come.
    match select(pin!(intake), pin!(pump)).await {
        Either::Left((submitted, _)) => submitted,
        // A closed channel looks like a client that left; who closed it knows better.
        Either::Right((late, intake)) => intake.await.map_err(|refused| late.unwrap_or(refused)),
    }
}

/// Returns a refusal that it could not send.
async fn pump(mut body: Arriving, to: mpsc::Sender<Sent>, limit: u64) -> Option<Refused> {
    let mut total = 0_u64;
    let (mut for_client, mut for_store) = (Duration::ZERO, Duration::ZERO);
    loop {
        let began = Instant::now();
        let next = body.next().await;
        for_client += began.elapsed();
        let sent = match next {
            Ok(Some(bytes)) => {
                total += bytes.len() as u64;
                if total > limit {
                    Sent::Broken(form_too_large(limit))
                } else {
                    Sent::Bytes(bytes)
                }
            }
            Ok(None) => Sent::End,
            Err(refused) => Sent::Broken(refused),
        };
        let is_last = !matches!(sent, Sent::Bytes(_));
        let began = Instant::now();
        let taken = timeout(body.left(), to.send(sent)).await;
        for_store += began.elapsed();
        match taken {
            Ok(Ok(())) if !is_last => {}
            // The intake has its answer already, and takes no more.
            Ok(_) => return None,
            // Its place in the line is taken by bytes that a store does not take: a refusal cannot
            // get past them, and a closed channel says it as well.
            Err(_) if for_store > for_client => {
                return Some(unavailable(
                    "the object store",
                    &format_args!("it took {for_store:?} of an upload's time"),
                ));
            }
            Err(_) => return Some(body.too_long()),
        }
    }
}

fn form_too_large(limit: u64) -> Refused {
    too_large(format!(
        "a form may have {limit} bytes in all: send fewer or smaller files"
    ))
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
    use actix_web::FromRequest;
    use actix_web::error::PayloadError;
    use actix_web::test::TestRequest;
    use futures::StreamExt;

    /// What is refused when a body of ten bytes comes after this time, and is to pass a channel without a
    /// reader.
    async fn refused(after: Duration) -> Refused {
        let late = futures::stream::once(async move {
            tokio::time::sleep(after).await;
            Ok::<_, PayloadError>(web::Bytes::from_static(b"xxxxxxxxxx"))
        });
        let mut payload = actix_web::dev::Payload::Stream {
            payload: late.boxed_local(),
        };
        let request = TestRequest::default().to_http_request();
        let payload = web::Payload::from_request(&request, &mut payload)
            .await
            .expect("a payload");
        let (to, _kept) = mpsc::channel(1);
        to.send(Sent::Bytes("before".into()))
            .await
            .expect("room for one");
        let body = Arriving::within(
            payload,
            Duration::from_secs(60),
            Duration::from_millis(1_000),
        );
        pump(body, to, 100)
            .await
            .expect("a refusal that does not get past the bytes")
    }

    #[actix_web::test]
    async fn a_store_that_takes_nothing_is_not_blamed_on_the_client() {
        assert_eq!(
            refused(Duration::ZERO).await.code(),
            ProblemCode::Unavailable
        );
    }

    #[actix_web::test]
    async fn a_client_that_took_most_of_the_time_is_told_so() {
        assert_eq!(
            refused(Duration::from_millis(800)).await.code(),
            ProblemCode::SlowBody
        );
    }
}
