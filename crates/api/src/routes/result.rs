//! `GET /api/tasks/{id}/result/{name}` and, of a list, `/{name}/{index}`: streams a stored file that the response names. Whatever it
//! is, it is handed over as a file to keep and never as a page to show.

use super::address::{segment, task_id};
use super::answer::Answer;
use crate::app_state::Api;
use crate::caller::Authenticated;
use crate::headers::has_current;
use crate::problem::HttpRefused;
use crate::query::Params;
use actix_web::body::SizedStream;
use actix_web::http::Method;
use actix_web::http::header::{
    ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_RANGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    HeaderName, HeaderValue, IF_RANGE, RANGE, Range,
};
use actix_web::{HttpRequest, HttpResponse, ResponseError, web};
use counterstep_contracts::{FileName, ProblemCode, StoredFile, TaskId, TaskStatus, Tenant};
use counterstep_kernel::ports::ObjectError;
use counterstep_operations::{Refused, load, log_line, unavailable};
use counterstep_steps::keys;
use counterstep_steps::verified::verified;
use futures::TryStreamExt;
use serde::Deserialize;
use serde_json::Value;

pub(super) async fn get(
    api: web::Data<Api>,
    Authenticated(caller): Authenticated,
    request: HttpRequest,
) -> Answer {
    let id = task_id(&request)?;
    Params::of(&request, &[])?;
    let file = stored_file(&api, &caller.tenant, id, Place::of(&request)).await?;
    handed_over(&api, &request, id, file).await
}

/// Where a response has a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    field: &'a str,
    /// Of a list.
    index: Option<&'a str>,
}

impl<'a> Place<'a> {
    /// As the address of a request says.
    pub(super) fn of(request: &'a HttpRequest) -> Self {
        Self {
            field: segment(request, "name"),
            index: Some(segment(request, "index")).filter(|it| !it.is_empty()),
        }
    }

    /// As a link is signed for it: no index has a slash.
    pub(super) fn name(self) -> String {
        match self.index {
            None => self.field.to_owned(),
            Some(index) => format!("{}/{index}", self.field),
        }
    }

    /// As a part of an address.
    pub(super) fn encoded(self) -> String {
        let field = percent_encoded(self.field);
        match self.index {
            None => field,
            Some(index) => format!("{field}/{}", percent_encoded(index)),
        }
    }
}

fn percent_encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// The file at this place of the response of a tenant's task.
pub(super) async fn stored_file(
    api: &Api,
    tenant: &Tenant,
    id: TaskId,
    place: Place<'_>,
) -> Result<StoredFile, Refused> {
    let task = load(&api.engine, tenant, id).await?.task;
    if task.status != TaskStatus::Completed {
        let detail = format!(
            "the task is {}: only a completed task has results",
            task.status
        );
        return Err(Refused::new(ProblemCode::NotCompleted, detail));
    }
    let file = task
        .response
        .as_ref()
        .and_then(|response| file_in(response, place));
    let file = file.ok_or_else(no_such_result)?;
    // The response is made by the author's code: it may name any key, and gets only those of its
    // own task.
    if !file.key.starts_with(&keys::task_prefix(&task.tenant, id)) {
        if let Some(left_out) = log_line("object of another task") {
            tracing::warn!(task = %id, key = file.key, left_out, "a response names an object of another task");
        }
        return Err(no_such_result());
    }
    Ok(file)
}

/// The answer with a file, or with the part of it that the request asks for.
pub(super) async fn handed_over(
    api: &Api,
    request: &HttpRequest,
    id: TaskId,
    file: StoredFile,
) -> Answer {
    let etag = format!("\"{}\"", file.sha256);
    let part = part_of(request, &etag, file.size_bytes);
    let mut answer = match part {
        _ if has_current(request, &etag) => HttpResponse::NotModified(),
        Part::Whole => HttpResponse::Ok(),
        Part::Some { .. } => HttpResponse::PartialContent(),
        Part::Outside => return Ok(outside(file.size_bytes)),
    };
    answer
        .insert_header((CONTENT_DISPOSITION, attachment(&file.name)))
        .insert_header((CONTENT_SECURITY_POLICY, "sandbox"))
        .insert_header((ACCEPT_RANGES, "bytes"))
        .insert_header((ETAG, &*etag));
    if has_current(request, &etag) {
        return Ok(answer.finish());
    }
    let objects = &api.engine.ports.objects;
    let (body, length) = match part {
        Part::Some { first, last } => {
            answer.insert_header((
                CONTENT_RANGE,
                format!("bytes {first}-{last}/{}", file.size_bytes),
            ));
            (
                objects
                    .get_range(&file.bucket, &file.key, first..last + 1)
                    .await,
                last + 1 - first,
            )
        }
        Part::Whole | Part::Outside => {
            (objects.get(&file.bucket, &file.key).await, file.size_bytes)
        }
    };
    let body = body.map_err(|error| match error {
        ObjectError::NotFound(_) => {
            if let Some(left_out) = log_line("result gone") {
                tracing::error!(task = %id, %error, left_out, "a completed task's result is gone");
            }
            no_such_result()
        }
        ObjectError::Unavailable(_) => unavailable("the object store", &error),
        ObjectError::Source(_) | ObjectError::Refused(_) => {
            Refused::internal("reading a result", &error)
        }
    })?;
    // Its length is announced: a client that gets fewer bytes sees that something is wrong.
    // The recorded digest is that of the whole file.
    let is_part = matches!(part, Part::Some { .. });
    let body = if is_part { body } else { verified(body, &file) };
    let body = body.inspect_err(move |error| {
        if let Some(left_out) = log_line("result broke off") {
            tracing::error!(task = %id, %error, left_out, "a result broke off while it was sent");
        }
    });
    let content_type = HeaderValue::from_str(&file.content_type)
        .ok()
        .filter(|value| !value.is_empty())
        .unwrap_or_else(|| HeaderValue::from_static("application/octet-stream"));
    Ok(answer
        .insert_header((CONTENT_TYPE, content_type))
        .body(SizedStream::new(length, body)))
}

/// Which bytes of a file are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Whole,
    /// From the first to the last, both included.
    Some {
        first: u64,
        last: u64,
    },
    /// None that there are.
    Outside,
}

/// As `Range` says, unless `If-Range` names another file. Several ranges at once, other units and
/// what cannot be read get the whole file, as RFC 9110 allows; so does a HEAD.
pub(super) fn part_of(request: &HttpRequest, etag: &str, size: u64) -> Part {
    let text = |name: HeaderName| {
        request
            .headers()
            .get(name)
            .and_then(|value| value.to_str().ok())
    };
    let other = text(IF_RANGE).is_some_and(|known| known != etag);
    let range = text(RANGE).and_then(|text| text.parse::<Range>().ok());
    match range {
        Some(Range::Bytes(specs))
            if request.method() == Method::GET && !other && specs.len() == 1 =>
        {
            match specs[0].to_satisfiable_range(size) {
                Some((first, last)) => Part::Some { first, last },
                None => Part::Outside,
            }
        }
        _ => Part::Whole,
    }
}

fn outside(size: u64) -> HttpResponse {
    let detail = format!("the file has {size} bytes: ask for a range that begins within them");
    let refused = Refused::new(ProblemCode::RangeNotSatisfiable, detail).at("Range");
    let mut answer = HttpRefused::from(refused).error_response();
    if let Ok(size) = HeaderValue::try_from(format!("bytes */{size}")) {
        answer.headers_mut().insert(CONTENT_RANGE, size);
    }
    answer
}

fn no_such_result() -> Refused {
    let detail = "the task's response has no stored file of this name: use the name of one of its fields that is a \
                  file, or a list's name and an index, as in files/0";
    Refused::new(ProblemCode::NoSuchResult, detail)
}

/// The file in a field of a response, or at a place of the list there.
fn file_in(response: &Value, Place { field, index }: Place<'_>) -> Option<StoredFile> {
    let field = response.get(field)?;
    let place = match index {
        None => field,
        Some(index) => field.as_array()?.get(index.parse::<usize>().ok()?)?,
    };
    StoredFile::deserialize(place).ok()
}

/// RFC 6266: a plain name for old clients, and the real one percent-encoded.
fn attachment(name: &FileName) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || " ._-()".contains(c);
    let plain: String = name
        .as_str()
        .chars()
        .map(|c| if is_plain(c) { c } else { '_' })
        .collect();
    let mut encoded = String::new();
    for byte in name.as_str().bytes() {
        if byte.is_ascii_alphanumeric() || b"!#$&+-.^_`|~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{encoded}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_header() {
        let name = FileName::parse("a\"; x=ü 名'%.html").unwrap();
        let expected = "attachment; filename=\"a__ x__ __%.html\"".replace('%', "_")
            + "; filename*=UTF-8''a%22%3B%20x%3D%C3%BC%20%E5%90%8D%27%25.html";
        assert_eq!(attachment(&name), expected);
    }
}
