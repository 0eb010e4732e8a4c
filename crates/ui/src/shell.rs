//! What stands around each page: who looks at it, and from where. Must not know how it is shown.

use crate::port::SignIn;
use actix_web::http::header::HeaderValue;
use counterstep_contracts::access::CallerView;

/// The name of a form's token: as a field, and in the query of a form with files.
pub(crate) const TOKEN: &str = "form_token";

/// What stands around a page.
#[derive(Debug, Clone)]
pub(crate) struct Shell {
    /// The path of the interface, as this browser reaches it.
    pub(crate) mount: String,
    /// That of the pages.
    pub(crate) base: String,
    pub(crate) sign_in: SignIn,
    pub(crate) caller: Option<CallerView>,
    /// What each of its forms sends along, as [`TOKEN`].
    pub(crate) token: String,
    /// The query of the page's address.
    pub(crate) query: String,
    pub(crate) new_cookie: Option<HeaderValue>,
}
