//! API keys.

use super::examples;
use super::params::{param, same, text};
use crate::openapi::{CACHE_CONTROL, Operation, Reply};
use counterstep_contracts::ProblemCode as C;
use counterstep_contracts::access::{CallerView, KeyView, NewKey, NewKeyRequest};
use counterstep_contracts::http::Page;
use counterstep_contracts::operation::{Chapter, Param};

const KEY_ID: Param = param(
    "key_id",
    "The part of the key that is no secret",
    text,
    "5f0c1e7ab2d94c33",
);

pub(in super::super) const LIST: Operation = Operation::new(
    "listKeys",
    Chapter::Keys,
    "List the API keys of the tenant, without their secrets; administrators of the default tenant see all",
)
.replies(&[Reply::json::<Page<KeyView>>(
    200,
    "Those of the tenant, or all",
    examples::keys,
)]);

pub(in super::super) const MAKE: Operation =
    Operation::new("makeKey", Chapter::Keys, "Make an API key")
        .body::<NewKeyRequest>(examples::new_key_request)
        .replies(&[Reply::json::<NewKey>(
            201,
            "The only answer that holds the key",
            examples::new_key,
        )
        .headers(&[CACHE_CONTROL])
        .links(&[same("revokeKey", "key_id", "$response.body#/id")])]);

pub(in super::super) const REVOKE: Operation =
    Operation::new("revokeKey", Chapter::Keys, "Revoke an API key")
        .path(&[KEY_ID])
        .replies(&[Reply::json::<KeyView>(
            200,
            "The key, revoked",
            examples::revoked_key,
        )])
        .problems(&[C::NoSuchKey]);

pub(in super::super) const CALLER: Operation = Operation::new(
    "getCaller",
    Chapter::Keys,
    "Show who sends the request: its tenant, its name, its role",
)
.replies(&[
    Reply::json::<CallerView>(200, "The caller", examples::caller).headers(&[CACHE_CONTROL]),
]);
