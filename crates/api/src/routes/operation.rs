//! The one handler of all declared operations: reads what is asked, lets it run, and writes the answer. Must not know an
//! operation.

use super::address::segment;
use super::answer::Answer;
use crate::app_state::Api;
use crate::body::Arriving;
use crate::caller::Authenticated;
use crate::headers::{BodyKind, body_kind, content_length};
use crate::mount_path::address;
use crate::query::DeclaredQuery;
use crate::request_json;
use actix_web::http::StatusCode;
use actix_web::http::header::{CACHE_CONTROL, CONTENT_TYPE, LOCATION};
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_contracts::ProblemCode;
use counterstep_operations::{Cx, Refused, Running, read_input};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// In this order: a bad address is refused before a parameter that is not known, and a name of nothing before a body is
/// read.
pub(super) async fn answer(
    it: &'static Running,
    query: &DeclaredQuery,
    api: web::Data<Api>,
    Authenticated(caller): Authenticated,
    request: HttpRequest,
    payload: web::Payload,
) -> Answer {
    let about = it.declared.about;
    let target = it.on(&segments(&request, about.path))?;
    let asked = query.read(&request)?;
    let cx = Cx {
        engine: api.engine.clone(),
        caller,
        process: api.clone().into_inner(),
    };
    target.find(&cx)?;
    let input = match it.declared.body() {
        Some(_) => json_body(&api, &request, payload).await?,
        None => asked,
    };
    let running = target.run(cx, input);
    let answer = if about.changes() {
        api.finish(about.id, running).await?
    } else {
        running.await?
    };
    let status = StatusCode::from_u16(answer.status);
    let mut response = HttpResponse::build(status.unwrap_or(StatusCode::OK));
    if about.no_store {
        response.insert_header((CACHE_CONTROL, "no-store"));
    }
    if let Some(location) = answer.location {
        response.insert_header((LOCATION, address(&request, &location)));
    }
    Ok(match answer.body {
        Some(body) => response
            .insert_header((CONTENT_TYPE, "application/json"))
            .body(body),
        None => response.finish(),
    })
}

/// The segments of the path that vary, in its order.
fn segments<'a>(request: &'a HttpRequest, path: &str) -> Vec<&'a str> {
    let names = path
        .split('/')
        .filter_map(|it| it.strip_prefix('{')?.strip_suffix('}'));
    names.map(|name| segment(request, name)).collect()
}

/// The body of a request, which has to be JSON.
async fn json_body(
    api: &Api,
    request: &HttpRequest,
    payload: web::Payload,
) -> Result<Value, Refused> {
    if !matches!(body_kind(request)?, BodyKind::Json) {
        let detail = "send `Content-Type: application/json`";
        return Err(Refused::new(ProblemCode::UnsupportedMediaType, detail).at("Content-Type"));
    }
    let bytes = Arriving::new(api, payload)
        .whole(content_length(request), api.settings.max_json_bytes)
        .await?;
    request_json::parse(&bytes)
}

/// The body of a request as its declared type, with no field that the type does not know.
pub(super) async fn body<T: Serialize + DeserializeOwned>(
    api: &Api,
    request: &HttpRequest,
    payload: web::Payload,
) -> Result<T, Refused> {
    read_input(json_body(api, request, payload).await?)
}

#[cfg(test)]
mod tests {
    use super::super::table::{RouteView, Table};
    use super::super::{configure_api, docs::document_of};
    use crate::app_state::Api;
    use crate::auth::AuthSettings;
    use crate::settings::ApiSettings;
    use actix_web::test::{TestRequest, init_service, read_body, try_call_service};
    use actix_web::{App, web};
    use counterstep_contracts::access::Role;
    use counterstep_contracts::operation::{About, Access, Chapter, Operation};
    use counterstep_contracts::{QueueName, Tenant};
    use counterstep_kernel::access::api_keys::{self, KeySpec};
    use counterstep_operations::{ALL, Cx, Refused, Run, Running};
    use counterstep_steps::{CancelToken, Registry};
    use counterstep_testkit::Harness;

    struct NameQueue;

    impl Operation for NameQueue {
        type Target = QueueName;
        type Input = ();
        type Output = (String,);
        const ABOUT: About = About::post(
            "nameQueue",
            "/api/queues/{name}/name",
            Access::Role(Role::Operate),
        )
        .summary(Chapter::Types, "Name a queue")
        .answers(202, "It is named");

        fn example() -> ((), (String,)) {
            ((), ("bookings".to_owned(),))
        }
    }

    impl Run for NameQueue {
        async fn run(_: Cx, name: QueueName, (): ()) -> Result<(String,), Refused> {
            Ok((name.0,))
        }
    }

    /// The product's operations, and the one above.
    fn with_one_more() -> impl Iterator<Item = &'static Running> {
        const MORE: &[Running] = &[Running::of::<NameQueue>()];
        ALL.iter().chain(MORE)
    }

    #[test]
    fn an_operation_in_the_list_is_a_route_with_its_role_and_is_in_the_document() {
        let table = Table::of(with_one_more());
        let route = RouteView {
            method: "POST",
            path: "/api/queues/{name}/name",
            role: Some(Role::Operate),
            is_of_installation: false,
        };
        assert!(table.routes().any(|it| it == route));
        assert!(!Table::of(ALL).routes().any(|it| it == route));
        let document = document_of(&table, &Registry::new(), &AuthSettings::Keys);
        let named = &document["paths"]["/api/queues/{name}/name"]["post"];
        assert_eq!(named["operationId"], "nameQueue");
        assert_eq!(named["description"], "Needs the role `operate`.");
        assert_eq!(named["parameters"][0]["example"], "bookings");
        let answer = &named["responses"]["202"]["content"]["application/json"];
        assert_eq!(answer["example"][0], "bookings");
    }

    #[tokio::test]
    async fn an_operation_in_the_list_is_answered_to_callers_with_its_role() {
        let site = Harness::embedded(Registry::new()).start().await;
        let settings = ApiSettings {
            auth: AuthSettings::Keys,
            ..ApiSettings::default()
        };
        let engine = site.engine.clone();
        let api = web::Data::new(Api::new(engine, settings, CancelToken::new()));
        let table = web::Data::new(Table::of(with_one_more()));
        let app = App::new().app_data(api.clone());
        let app = init_service(app.configure(|config| configure_api(config, &api, &table))).await;
        let ports = &site.engine.ports;
        for role in [Role::Submit, Role::Operate] {
            let spec = KeySpec {
                tenant: Tenant("acme".to_owned()),
                subject: "kim".to_owned(),
                role,
                expires_in: None,
            };
            let made = api_keys::make(&ports.store, ports.random.as_ref(), spec, "test").await;
            let key = made.expect("a key").0.expose();
            let request = TestRequest::post()
                .uri("/api/queues/a%20b/name")
                .insert_header(("authorization", format!("Bearer {key}")));
            match try_call_service(&app, request.to_request()).await {
                Ok(answer) => {
                    assert_eq!((role, answer.status().as_u16()), (Role::Operate, 202));
                    assert_eq!(read_body(answer).await, r#"["a b"]"#);
                }
                Err(refused) => {
                    let status = refused.as_response_error().status_code().as_u16();
                    assert_eq!((role, status), (Role::Submit, 403));
                }
            }
        }
    }
}
