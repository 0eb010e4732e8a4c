//! What a route returns: a response, or a refusal that becomes a problem document.

use crate::problem::HttpRefused;
use actix_web::HttpResponse;

pub(super) type Answer = Result<HttpResponse, HttpRefused>;
