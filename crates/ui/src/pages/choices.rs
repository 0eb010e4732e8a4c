//! The form below each page: what a person has chosen there for this browser. Must not know the choices.

use super::done_at;
use crate::failed::Answer;
use crate::page_request::PageRequest;
use crate::query::place;
use crate::{cookies, forms, preferences};
use actix_web::{HttpRequest, web};

/// Keeps what was chosen, and leads back to the page where it was. Without signing in: that page has the form, too.
pub(crate) async fn post(request: HttpRequest, payload: web::Payload) -> Answer {
    let visit = PageRequest::open(&request);
    let fields = forms::read(&visit, payload).await?;
    let mut answer = done_at(&visit, place(fields.get("back")));
    for cookie in preferences::keep(&request, &visit.shell.base, &fields) {
        cookies::set(&mut answer, Some(cookie));
    }
    Ok(answer)
}
