//! API keys of a tenant, and who sends the request.

use super::examples::{CHANGED, MADE};
use super::{About, Access, Chapter, Link, Operation, text_target};
use crate::ProblemCode;
use crate::access::{CallerView, KeyView, NewKey, NewKeyRequest, Role};
use crate::http::Page;

const ADMIN: Access = Access::Role(Role::Admin);

/// The part of a key that is no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyId(pub String);

text_target!(
    KeyId,
    "key_id",
    "The part of the key that is no secret",
    "5f0c1e7ab2d94c33"
);

/// List API keys.
#[derive(Debug)]
pub struct ListKeys;
/// Make an API key.
#[derive(Debug)]
pub struct MakeKey;
/// Revoke an API key.
#[derive(Debug)]
pub struct RevokeKey;
/// Show who sends the request.
#[derive(Debug)]
pub struct GetCaller;

impl Operation for ListKeys {
    type Target = ();
    type Input = ();
    type Output = Page<KeyView>;
    const ABOUT: About = About::get("listKeys", "/api/keys", ADMIN)
        .summary(
            Chapter::Keys,
            "List the API keys of the tenant, without their secrets; administrators of the default tenant see all",
        )
        .answers(200, "Those of the tenant, or all");

    fn example() -> ((), Page<KeyView>) {
        ((), Page::whole(vec![key()]))
    }
}

impl Operation for MakeKey {
    type Target = ();
    type Input = NewKeyRequest;
    type Output = NewKey;
    const ABOUT: About = About::post("makeKey", "/api/keys", ADMIN)
        .summary(Chapter::Keys, "Make an API key")
        .answers(201, "The only answer that holds the key")
        .no_store()
        .links(&[Link {
            operation: "revokeKey",
            parameter: "key_id",
            value: "$response.body#/id",
        }]);

    fn example() -> (NewKeyRequest, NewKey) {
        let request = NewKeyRequest {
            tenant: Some("acme".to_owned()),
            subject: "shop".to_owned(),
            role: Role::Submit,
            expires_in: Some("90d".to_owned()),
        };
        let made = NewKey {
            key: "cs_5f0c1e7ab2d94c33_(the secret)".to_owned(),
            view: key(),
        };
        (request, made)
    }
}

impl Operation for RevokeKey {
    type Target = KeyId;
    type Input = ();
    type Output = KeyView;
    const ABOUT: About = About::delete("revokeKey", "/api/keys/{id}", ADMIN)
        .summary(Chapter::Keys, "Revoke an API key")
        .answers(200, "The key, revoked")
        .problems(&[ProblemCode::NoSuchKey]);

    fn example() -> ((), KeyView) {
        let revoked = KeyView {
            revoked_at: Some(CHANGED.to_owned()),
            revoked_by: Some("operator:kim".to_owned()),
            ..key()
        };
        ((), revoked)
    }
}

impl Operation for GetCaller {
    type Target = ();
    type Input = ();
    type Output = CallerView;
    const ABOUT: About = About::get("getCaller", "/api/caller", Access::Role(Role::Read))
        .summary(
            Chapter::Keys,
            "Show who sends the request: its tenant, its name, its role",
        )
        .answers(200, "The caller")
        .no_store();

    fn example() -> ((), CallerView) {
        let caller = CallerView {
            tenant: "default".to_owned(),
            subject: Some("kim".to_owned()),
            role: Role::Operate,
            is_of_installation: false,
            key: Some("5f0c1e7ab2d94c33".to_owned()),
        };
        ((), caller)
    }
}

fn key() -> KeyView {
    KeyView {
        id: "5f0c1e7ab2d94c33".to_owned(),
        tenant: "acme".to_owned(),
        subject: "shop".to_owned(),
        role: Role::Submit,
        created_at: MADE.to_owned(),
        created_by: "operator:kim".to_owned(),
        expires_at: Some("2027-02-18T18:00:00.000000Z".to_owned()),
        revoked_at: None,
        revoked_by: None,
    }
}
