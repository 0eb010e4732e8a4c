//! `GET /api/openapi.json` and `GET /docs`: what the interface takes and answers, for programs and for
//! people. Must not know a route: the table does.

use super::answer::Answer;
use super::table::Table;
use crate::app_state::Api;
use crate::auth::AuthSettings;
use crate::mount_path::address;
use crate::openapi::{self, Document, Part};
use crate::query::Params;
use actix_web::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY};
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_contracts::ProblemCode;
use counterstep_operations::{ALL, Refused};
use counterstep_steps::Registry;
use serde_json::{Value, json};

/// The OpenAPI 3.1 document of an interface with these task types, at the root of its server.
#[must_use]
pub fn openapi_document(registry: &Registry, auth: &AuthSettings) -> Value {
    document_of(&Table::of(ALL), registry, auth)
}

/// The document of these routes.
pub(super) fn document_of(table: &Table, registry: &Registry, auth: &AuthSettings) -> Value {
    let document = Document {
        rows: &table.rows(),
        registry,
        has_callers: !matches!(auth, AuthSettings::None),
        credential: match auth {
            AuthSettings::Keys => Some("An API key"),
            AuthSettings::Jwt(_) => Some("An access token of the issuer"),
            AuthSettings::None | AuthSettings::Proxy(_) => None,
        },
    };
    document.build()
}

pub(super) async fn document(
    api: web::Data<Api>,
    table: web::Data<Table>,
    request: HttpRequest,
) -> Answer {
    Params::of(&request, &[])?;
    Ok(HttpResponse::Ok().json(as_reached(&api, &table, &request)))
}

pub(super) async fn page(
    api: web::Data<Api>,
    table: web::Data<Table>,
    request: HttpRequest,
) -> Answer {
    let params = Params::of(&request, &["chapter", "operation", "schema", "q"])?;
    let of = |name| params.get(name);
    let parts = [
        of("q").map(Part::Search),
        of("operation").map(Part::Operation),
        of("schema").map(Part::Schema),
        of("chapter").map(Part::Chapter),
    ];
    let part = parts.into_iter().flatten().next().unwrap_or(Part::Index);
    let page = openapi::page(&as_reached(&api, &table, &request), &part);
    let page = page.ok_or_else(|| {
        Refused::new(
            ProblemCode::NoSuchRoute,
            "the document has no such part: see /docs",
        )
    })?;
    Ok(HttpResponse::Ok()
        .insert_header((CONTENT_TYPE, "text/html; charset=utf-8"))
        .insert_header((CONTENT_SECURITY_POLICY, page.policy))
        .insert_header((REFERRER_POLICY, "no-referrer"))
        .body(page.html))
}

/// The document, with the address under which this client reaches the interface.
fn as_reached(api: &Api, table: &Table, request: &HttpRequest) -> Value {
    let made = api
        .document
        .get_or_init(|| document_of(table, &api.engine.registry, &api.settings.auth));
    let mut document = made.clone();
    let base = address(request, "");
    document["servers"] = json!([{ "url": if base.is_empty() { "/" } else { &base } }]);
    document
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openapi::{Content, Json};
    use counterstep_contracts::operation::BY_HAND;
    use std::collections::BTreeSet;

    /// Each example with the name of its operation.
    fn examples() -> Vec<(&'static str, Json)> {
        let mut examples = Vec::new();
        for row in Table::of(ALL).rows() {
            let of = row.operation;
            examples.extend(of.body.map(|json| (of.id, json)));
            let replies = of.all_replies().map(|reply| reply.content);
            examples.extend(replies.filter_map(|content| match content {
                Content::Json(json) => Some((of.id, json)),
                Content::Nothing | Content::Events { .. } | Content::Text { .. } => None,
            }));
        }
        examples
    }

    #[test]
    fn each_example_is_a_value_of_its_type_and_leaves_nothing_out_that_is_written() {
        let all = ALL.iter().map(|it| &it.declared).chain(BY_HAND);
        let declared: BTreeSet<_> = all.map(|it| it.about.id).collect();
        for (of, json) in examples() {
            let example = (json.example)();
            let Some(round_trip) = json.round_trip else {
                // Made of a value of its type, by the declaration.
                assert!(declared.contains(of), "{of}");
                continue;
            };
            let again = round_trip(example.clone());
            let again = again.unwrap_or_else(|error| panic!("{of}: {error}: {example:#}"));
            assert_eq!(again, example, "{of}");
        }
    }
}
