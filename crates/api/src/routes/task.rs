//! `GET /api/tasks/{id}`: a task now, or when it has come to rest.

use super::{Answer, load, task_id};
use crate::headers::has_current;
use crate::problem::Refused;
use crate::query::Params;
use crate::shared::Api;
use crate::view;
use actix_web::http::header::{CACHE_CONTROL, ETAG};
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_contracts::retry::parse_duration;
use counterstep_contracts::{ProblemCode, TaskId};
use counterstep_kernel::record::TaskRecord;
use std::pin::pin;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// A longer `?wait` is answered after this: the client asks again, and no proxy in between loses patience.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Where nobody announces changes, a client learns of a rest this much later, at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

pub(super) async fn get(api: web::Data<Api>, request: HttpRequest) -> Answer {
    let id = task_id(&request)?;
    let wait = wait_of(&Params::of(&request, &["wait"])?)?;
    let record = match wait {
        None => load(&api, id).await?,
        Some(wait) => load_at_rest(&api, id, wait).await?,
    };
    let said = api.engine.progress_of(&record).await;
    // A step that goes on without a change of the row is news too.
    let etag = match &said {
        None => format!("\"r{}\"", record.task.rev.0),
        Some(said) => format!("\"r{}.{}\"", record.task.rev.0, said.seq),
    };
    if has_current(&request, &etag) {
        return Ok(HttpResponse::NotModified().insert_header((ETAG, etag)).finish());
    }
    // A cache may keep it, but asks each time: that is what the ETag is for.
    let mut answer = HttpResponse::Ok();
    answer.insert_header((ETAG, etag)).insert_header((CACHE_CONTROL, "private, no-cache"));
    if !record.task.status.is_at_rest() {
        answer.insert_header(("retry-after", "1"));
    }
    Ok(answer.json(view::task(record, said.map(|said| said.steps).unwrap_or_default())))
}

fn wait_of(params: &Params) -> Result<Option<Duration>, Refused> {
    let Some(text) = params.get("wait") else { return Ok(None) };
    match parse_duration(text) {
        Some(wait) => Ok(Some(wait.min(LONGEST_WAIT))),
        None => {
            let detail = "`wait` is a whole number with a unit, such as 500ms or 30s; more than 60s counts as 60s";
            Err(Refused::new(ProblemCode::MalformedParameter, detail).at("wait"))
        }
    }
}

/// The task once it is at rest, or as it is when the time is over or the server stops.
async fn load_at_rest(api: &Api, id: TaskId, wait: Duration) -> Result<TaskRecord, Refused> {
    let until = Instant::now() + wait;
    let waiting = api.waiting.for_rest_of(id);
    let mut pause = api.settings.wait_poll;
    loop {
        // Before the look: a rest between the look and the wait would be missed.
        let mut rest = pin!(waiting.rest.notified());
        rest.as_mut().enable();
        let record = load(api, id).await?;
        if record.task.status.is_at_rest() || Instant::now() >= until || api.shutdown.is_cancelled() {
            return Ok(record);
        }
        tokio::select! {
            () = rest => {}
            // Signals may skip, and those of other processes may never come.
            () = sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE),
            () = sleep_until(until) => {}
            _ = api.shutdown.cancelled() => {}
        }
    }
}
