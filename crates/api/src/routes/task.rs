//! `GET /api/tasks/{id}`: a task now, or when it has come to rest.

use super::address::{load, task_id};
use super::answer::Answer;
use super::children;
use crate::app_state::Api;
use crate::caller::Authenticated;
use crate::headers::{has_current, preferred_wait};
use crate::long_poll::WaitFor;
use crate::query::Params;
use actix_web::http::header::{CACHE_CONTROL, ETAG, RETRY_AFTER};
use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder, web};
use counterstep_contracts::retry::parse_duration;
use counterstep_contracts::{ProblemCode, TaskId, TaskProgress};
use counterstep_kernel::client::Submitted;
use counterstep_kernel::ports::ChildCount;
use counterstep_kernel::record::TaskRecord;
use counterstep_kernel::status::progress;
use counterstep_operations::{Caller, Refused, task_bodies};
use counterstep_steps::digest::hex;
use sha2::{Digest, Sha256};
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// Maximum of `?wait`. A longer one is answered after this: the client asks again, and no proxy in between
/// times out.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// How late a client may learn of a rest where no process announces changes.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

pub(super) async fn get(
    api: web::Data<Api>,
    Authenticated(caller): Authenticated,
    request: HttpRequest,
) -> Answer {
    let id = task_id(&request)?;
    let wait = Wait::of(&request)?;
    let (record, rest) = match &wait {
        None => (load(&api, &caller, id).await?, Rest::Earlier),
        Some(wait) => load_at_rest(&api, &caller, id, wait.time, None).await?,
    };
    let shown = look(&api, record, rest).await?;
    Ok(shown.answer(&request, wait))
}

/// What is shown of a task.
pub(super) struct Shown {
    record: TaskRecord,
    said: Option<TaskProgress>,
    children: Vec<ChildCount>,
    successors: Vec<TaskId>,
}

async fn look(api: &Api, record: TaskRecord, rest: Rest) -> Result<Shown, Refused> {
    let said = progress::progress_of(&api.engine, &record).await;
    let children = children::counts(api, &record).await?;
    let successors = match rest {
        Rest::Earlier if record.task.status.is_terminal() => {
            let (store, task) = (&api.engine.ports.store, &record.task);
            store.successors(&task.tenant, task.id).await?
        }
        // Before its end there is none, and since then no time has passed.
        Rest::Earlier | Rest::InThisRequest => Vec::new(),
    };
    Ok(Shown {
        record,
        said,
        children,
        successors,
    })
}

impl Shown {
    /// The answer that shows the task, or says that it is as the client knows it.
    pub(super) fn answer(self, request: &HttpRequest, wait: Option<Wait>) -> HttpResponse {
        let Self {
            record,
            said,
            children,
            successors,
        } = self;
        let etag = etag(
            &record,
            said.as_ref().map(|said| said.seq),
            &children,
            &successors,
        );
        let unchanged = request.method().is_safe() && has_current(request, &etag);
        let mut answer = if unchanged {
            HttpResponse::NotModified()
        } else {
            HttpResponse::Ok()
        };
        // A cache may keep it, but asks each time: that is what the ETag is for. Of an answer that is
        // no GET's nothing is kept.
        answer
            .insert_header((ETAG, etag))
            .insert_header((CACHE_CONTROL, "private, no-cache"));
        if !record.task.status.is_at_rest() {
            answer.insert_header((RETRY_AFTER, "1"));
        }
        if let Some(wait) = wait {
            wait.applied(&mut answer);
        }
        if unchanged {
            return answer.finish();
        }
        let said = said.map(|said| said.steps).unwrap_or_default();
        answer.json(task_bodies::task(record, said, &children, successors))
    }
}

/// A step that continues without a change of the row changes the tag too, and so do tasks that the task has
/// submitted, and those that run it again.
fn etag(
    record: &TaskRecord,
    said: Option<u64>,
    children: &[ChildCount],
    successors: &[TaskId],
) -> String {
    let mut text = format!("r{}", record.task.rev.0);
    if let Some(seq) = said {
        text += &format!(".{seq}");
    }
    if !children.is_empty() {
        let digest = Sha256::digest(format!("{children:?}").as_bytes());
        text += &format!("-{}", hex(&digest[..8]));
    }
    if let Some(last) = successors.first() {
        text += &format!("-{last}");
    }
    format!("\"{text}\"")
}

/// Whether a task came to rest while the request waited for it.
#[derive(Debug, Clone, Copy)]
enum Rest {
    /// It was at rest before, or is not.
    Earlier,
    InThisRequest,
}

/// For how long an answer may wait for a task's rest.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wait {
    pub(super) time: Duration,
    /// In the header `Prefer`: the answer says that it was heard.
    preferred: bool,
}

impl Wait {
    /// As `?wait=30s` says, which comes first, or `Prefer: wait=30`.
    pub(super) fn of(request: &HttpRequest) -> Result<Option<Self>, Refused> {
        let Some(text) = Params::of(request, &["wait"])?
            .get("wait")
            .map(str::to_owned)
        else {
            let preferred = preferred_wait(request);
            return Ok(preferred.map(|time| Self {
                time: time.min(LONGEST_WAIT),
                preferred: true,
            }));
        };
        match parse_duration(&text) {
            Some(time) => Ok(Some(Self {
                time: time.min(LONGEST_WAIT),
                preferred: false,
            })),
            None => {
                let detail = "`wait` is a whole number with a unit, such as 500ms or 30s; more than 60s counts as 60s";
                Err(Refused::new(ProblemCode::MalformedParameter, detail).at("wait"))
            }
        }
    }

    /// Notes in the answer that it waited as the client preferred.
    pub(super) fn applied(self, answer: &mut HttpResponseBuilder) {
        if self.preferred {
            answer.insert_header((
                "preference-applied",
                format!("wait={}", self.time.as_secs()),
            ));
        }
    }
}

/// The task of a submission, where it has come to rest in time; `None`: it has not, or is gone
/// again. `begun`: a wait that began before the submission was committed.
pub(super) async fn at_rest(
    api: &Api,
    caller: &Caller,
    submitted: &Submitted,
    wait: Wait,
    begun: Option<WaitFor>,
) -> Option<Shown> {
    let id = submitted.answer.task_id;
    // It waits for another id where the request repeats an earlier one, or where its receive began once more after a lost answer.
    let begun = begun.filter(|begun| begun.task() == id);
    // The task is accepted, whatever this look comes to: the client learns more when it asks.
    let (record, rest) = load_at_rest(api, caller, id, wait.time, begun).await.ok()?;
    if !record.task.status.is_at_rest() {
        return None;
    }
    let rest = if submitted.replayed {
        rest
    } else {
        Rest::InThisRequest
    };
    look(api, record, rest).await.ok()
}

/// The task once it is at rest, or as it is when the time is over or the server stops. `begun`: a
/// wait that began before the task was there; without one, the first look comes at once.
async fn load_at_rest(
    api: &Api,
    caller: &Caller,
    id: TaskId,
    wait: Duration,
    begun: Option<WaitFor>,
) -> Result<(TaskRecord, Rest), Refused> {
    let until = Instant::now() + wait;
    let mut is_new = begun.is_some();
    let mut rest = Rest::Earlier;
    let mut waiting = begun.unwrap_or_else(|| api.waiting.rests().of(id));
    let mut pause = api.settings.wait_poll;
    loop {
        if !std::mem::take(&mut is_new) {
            let record = load(api, caller, id).await?;
            if record.task.status.is_at_rest()
                || Instant::now() >= until
                || api.shutdown.is_cancelled()
            {
                return Ok((record, rest));
            }
        }
        rest = Rest::InThisRequest;
        tokio::select! {
            () = waiting.rest() => {}
            // Signals may skip, and those of other processes may never come.
            () = sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE),
            () = sleep_until(until) => {}
            _ = api.shutdown.cancelled() => {}
        }
    }
}
