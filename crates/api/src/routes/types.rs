//! `GET /api/task-types`: the declarations that this process knows, as data.

use super::Answer;
use crate::problem::Refused;
use crate::query::Params;
use crate::shared::Api;
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_contracts::http::Page;
use counterstep_contracts::retry::format_duration;
use serde_json::{Value, json};
use std::time::Duration;

pub(super) async fn get(api: web::Data<Api>, request: HttpRequest) -> Answer {
    Params::of(&request, &[])?;
    let policies = &api.engine.settings.policies;
    let mut items = Vec::new();
    for task_type in api.engine.registry.iter() {
        let decl = task_type.decl;
        let mut item = policies.shown(decl).map_err(|error| Refused::internal("showing a declaration", &error))?;
        with_readable_durations(&mut item);
        if let Value::Object(fields) = &mut item {
            fields.insert("submit_to".to_owned(), json!(format!("/api/tasks/{}", decl.route())));
            fields.insert("definition_hash".to_owned(), json!(decl.definition_hash()));
        }
        items.push(item);
    }
    Ok(HttpResponse::Ok().json(Page { items, next_cursor: None }))
}

/// Durations stand in bodies as they do in declarations, `30s`; serde writes `{"secs":30,"nanos":0}`.
fn with_readable_durations(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let part = |name: &str| fields.get(name).and_then(Value::as_u64);
            match (fields.len(), part("secs"), part("nanos").and_then(|nanos| u32::try_from(nanos).ok())) {
                (2, Some(secs), Some(nanos)) => *value = json!(format_duration(Duration::new(secs, nanos))),
                _ => fields.values_mut().for_each(with_readable_durations),
            }
        }
        Value::Array(items) => items.iter_mut().for_each(with_readable_durations),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
