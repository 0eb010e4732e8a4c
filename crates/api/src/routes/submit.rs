//! `POST /api/tasks/{type}`: a request becomes a task.

use super::{Answer, segment};
use crate::body::Arriving;
use crate::form::{Form, Limits, Sent};
use crate::headers::{BodyKind, body_kind, content_length, idempotency_key, traceparent};
use crate::problem::{Refused, too_large};
use crate::shared::Api;
use crate::{intake, json};
use actix_web::http::header::{LOCATION, RETRY_AFTER};
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_contracts::ProblemCode;
use counterstep_kernel::TaskType;
use counterstep_kernel::client::{Submission, Submitted};
use futures::future::{Either, select};
use std::pin::pin;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Chunks on their way from the connection to the intake. A chunk is at most 128 KiB, the server's read buffer, so
/// with the parser's own one an upload holds well under a megabyte.
const CHUNKS: usize = 4;

pub(super) async fn post(api: web::Data<Api>, request: HttpRequest, payload: web::Payload) -> Answer {
    let task_type = api.engine.registry.by_route(segment(&request, "id")).ok_or_else(|| {
        Refused::new(ProblemCode::NoSuchTaskType, "no task type has this name: GET /api/task-types lists them")
    })?;
    let submission =
        Submission { tenant: api.tenant(), key: idempotency_key(&request)?, traceparent: traceparent(&request) };
    let announced = content_length(&request);
    let submitted = match body_kind(&request)? {
        BodyKind::Json => {
            let arriving = Arriving::new(&api, payload);
            let body = json::parse(&arriving.whole(announced, api.settings.max_json_bytes).await?)?;
            let intake = intake::of_json(api.engine.clone(), task_type, submission, body);
            api.finish("taking a JSON request", intake).await?
        }
        BodyKind::Form { boundary } => {
            let limit = api.settings.max_form_bytes;
            if announced.is_some_and(|length| length > limit) {
                return Err(form_too_large(limit));
            }
            upload(&api, payload, task_type, submission, &boundary).await?
        }
    };
    Ok(accepted(&submitted))
}

/// Passes the body on to the intake, which is a task of its own: when the client goes away, this future is dropped,
/// the channel closes, and the intake cleans up.
async fn upload(
    api: &Api,
    payload: web::Payload,
    task_type: TaskType,
    submission: Submission,
    boundary: &str,
) -> Result<Submitted, Refused> {
    let (to, from) = mpsc::channel(CHUNKS);
    let form = Form::new(boundary, from, Limits::of(&api.settings));
    let intake = intake::of_form(api.engine.clone(), task_type, submission, form);
    let intake = api.finish("taking a form", intake);
    let pump = pump(Arriving::new(api, payload), to, api.settings.max_form_bytes);
    // The intake comes first: it starts to run when it is polled. Once it has its answer, nobody waits for the rest of
    // a body that may never come.
    match select(pin!(intake), pin!(pump)).await {
        Either::Left((submitted, _)) => submitted,
        // A closed channel looks like a client that left; who closed it knows better.
        Either::Right((late, intake)) => intake.await.map_err(|refused| late.unwrap_or(refused)),
    }
}

/// Returns a refusal that it could not send.
async fn pump(mut body: Arriving, to: mpsc::Sender<Sent>, limit: u64) -> Option<Refused> {
    let mut total = 0_u64;
    loop {
        let sent = match body.next().await {
            Ok(Some(bytes)) => {
                total += bytes.len() as u64;
                if total > limit { Sent::Broken(form_too_large(limit)) } else { Sent::Bytes(bytes) }
            }
            Ok(None) => Sent::End,
            Err(refused) => Sent::Broken(refused),
        };
        let is_last = !matches!(sent, Sent::Bytes(_));
        match timeout(body.left(), to.send(sent)).await {
            Ok(Ok(())) if !is_last => {}
            // The intake has its answer already, and takes no more.
            Ok(_) => return None,
            // Its place in the line is taken by bytes that a store does not take: a refusal cannot get past them, and
            // a closed channel says it as well.
            Err(_) => {
                tracing::warn!("an upload ran out of time while a store was taking it");
                return Some(body.too_long());
            }
        }
    }
}

fn form_too_large(limit: u64) -> Refused {
    too_large(format!("a form may have {limit} bytes in all: send fewer or smaller files"))
}

fn accepted(submitted: &Submitted) -> HttpResponse {
    let mut answer = HttpResponse::Accepted();
    answer
        .insert_header((LOCATION, format!("/api/tasks/{}", submitted.answer.task_id)))
        .insert_header((RETRY_AFTER, "1"));
    if submitted.replayed {
        answer.insert_header(("idempotency-replayed", "true"));
    }
    answer.json(&submitted.answer)
}
