//! Bodies of the route that makes links to files of responses.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Body of `POST /api/tasks/{id}/result/{name}/link`; none at all is the same as an empty object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NewLinkRequest {
    /// For how long the link is valid, as `1h`, from `1s` to `7d`; missing: one hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(
        pattern = r"^([1-9][0-9]{3,7}ms|[1-9][0-9]{0,4}s|[1-9][0-9]{0,3}m|[1-9][0-9]?h|[1-7]d)$"
    ))]
    pub valid_for: Option<String>,
}

/// Answer to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResultLink {
    /// Where the file is: path and query on the server that has answered. Its holder needs no credential.
    pub url: String,
    /// Until when: RFC 3339 in UTC.
    pub expires_at: String,
}
