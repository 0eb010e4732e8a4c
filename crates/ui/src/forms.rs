//! Forms of pages: the token that each sends along, and reading what was sent. Must not know what a form is
//! for.

use crate::failed::Failed;
use crate::page_request::PageRequest;
use crate::query::Fields;
use crate::shell::TOKEN;
use actix_web::web::Payload;
use counterstep_contracts::ProblemCode;
use maud::{Markup, html};

/// Maximum bytes of all fields of a form together. A request as JSON may be as large as the interface takes
/// one.
const MOST_BYTES: usize = 4 << 20;

/// The field of the token.
pub(crate) fn token(visit: &PageRequest) -> Markup {
    html! { input type="hidden" name=(TOKEN) value=(visit.shell.token); }
}

/// What a form of this browser's page has sent.
pub(crate) async fn read(visit: &PageRequest, payload: Payload) -> Result<Fields, Failed> {
    let bytes = payload.to_bytes_limited(MOST_BYTES).await;
    let bytes = bytes.map_err(|_| visit.refused(ProblemCode::TooLarge, "the form is too large"))?;
    let bytes =
        bytes.map_err(|_| visit.refused(ProblemCode::MalformedBody, "the form broke off"))?;
    let text = std::str::from_utf8(&bytes);
    let text =
        text.map_err(|_| visit.refused(ProblemCode::MalformedBody, "the form is no text"))?;
    let fields = Fields::of(text);
    visit.check_token(fields.get(TOKEN).unwrap_or_default())?;
    Ok(fields)
}
