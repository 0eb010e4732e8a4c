//! `GET /api/task-types`: the declarations that this process knows, as data, and whether each takes submissions.

use super::address::segment;
use super::answer::Answer;
use crate::app_state::Api;
use crate::caller::Authenticated;
use crate::mount_path::address;
use crate::query::Params;
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_contracts::TaskDecl;
use counterstep_contracts::disable::SwitchView;
use counterstep_contracts::http::Page;
use counterstep_operations::{Refused, no_such_type, type_switch};
use counterstep_steps::TaskType;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// A task type as it is listed.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct TaskTypeView {
    /// As it was declared, and what the settings change.
    #[serde(flatten)]
    #[schemars(with = "TaskDecl")]
    declaration: Value,
    /// The address that takes its requests.
    submit_to: String,
    /// Digest of what a task in flight depends on.
    definition_hash: String,
    /// Whether it takes submissions.
    switch: SwitchView,
}

pub(super) async fn get(
    api: web::Data<Api>,
    Authenticated(caller): Authenticated,
    request: HttpRequest,
) -> Answer {
    Params::of(&request, &[])?;
    let policies = &api.engine.settings.policies;
    let switches = api.engine.ports.store.types().await?.rows;
    let mut items = Vec::new();
    for task_type in api.engine.registry.iter() {
        let decl = task_type.decl;
        let row = switches.iter().find(|row| row.name == decl.name).cloned();
        let mut switch = type_switch(decl.name, row);
        if !caller.is_of_installation() {
            // They may be of another tenant.
            (switch.probe, switch.by) = (None, None);
        }
        let declaration = policies.shown(decl);
        items.push(TaskTypeView {
            declaration: declaration
                .map_err(|error| Refused::internal("showing a declaration", &error))?,
            submit_to: address(&request, &format!("/api/tasks/{}", decl.route())),
            definition_hash: decl.definition_hash(),
            switch,
        });
    }
    Ok(HttpResponse::Ok().json(Page {
        items,
        next_cursor: None,
    }))
}

pub(super) fn by_route(api: &Api, request: &HttpRequest) -> Result<TaskType, Refused> {
    api.engine
        .registry
        .by_route(segment(request, "id"))
        .ok_or_else(no_such_type)
}
