//! `GET /api/task-types`: the declarations that this process knows, as data, and whether each takes
//! submissions; `/disable` and `/enable`: what a person decides about that.

use super::address::segment;
use super::answer::Answer;
use super::operator::{body, note};
use crate::app_state::Api;
use crate::caller::{Authenticated, caller_of};
use crate::mount_path::address;
use crate::query::Params;
use crate::task_view;
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_contracts::TaskDecl;
use counterstep_contracts::disable::{SwitchRequest, SwitchView};
use counterstep_contracts::http::Page;
use counterstep_kernel::admission::disable;
use counterstep_kernel::admission::disable::TypeDecision;
use counterstep_operations::{Refused, no_such_type};
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
        let mut switch = task_view::switch(decl.name, row);
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

pub(super) async fn disable(
    api: web::Data<Api>,
    request: HttpRequest,
    payload: web::Payload,
) -> Answer {
    switch(&api, &request, payload, false).await
}

pub(super) async fn enable(
    api: web::Data<Api>,
    request: HttpRequest,
    payload: web::Payload,
) -> Answer {
    switch(&api, &request, payload, true).await
}

async fn switch(api: &Api, request: &HttpRequest, payload: web::Payload, on: bool) -> Answer {
    Params::of(request, &[])?;
    let name = by_route(api, request)?.decl.name;
    let asked: SwitchRequest = body(api, request, payload).await?;
    note(&asked.note, asked.actor.as_deref())?;
    let (actor, engine) = (caller_of(request)?.actor("operator"), api.engine.clone());
    let switching = async move {
        let decision = TypeDecision {
            actor: &actor,
            name: asked.actor.as_deref().map(str::trim),
            note: asked.note.trim(),
        };
        let switched = if on {
            disable::enable_type(&engine, name, decision).await
        } else {
            disable::disable_type(&engine, name, decision).await
        };
        switched.map_err(Refused::from)
    };
    let row = api.finish("switching a task type", switching).await?;
    Ok(HttpResponse::Ok().json(task_view::switch(name, Some(row))))
}

pub(super) fn by_route(api: &Api, request: &HttpRequest) -> Result<TaskType, Refused> {
    api.engine
        .registry
        .by_route(segment(request, "id"))
        .ok_or_else(no_such_type)
}
