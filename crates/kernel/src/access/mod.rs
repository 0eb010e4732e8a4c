//! Who may call: API keys and access tokens, the secrets of the installation, and signed links to files of
//! responses. Must not know HTTP: what a caller may do stands at the route.

pub mod access_tokens;
pub mod api_keys;
pub mod result_links;
pub(crate) mod secrets;
