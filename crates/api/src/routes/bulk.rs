//! `POST /api/bulk-operations`: one decision for many tasks. The kernel executes it; here the body is checked.

use super::answer::Answer;
use super::operation::body;
use crate::app_state::Api;
use crate::caller::Authenticated;
use crate::query::Params;
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_contracts::bulk::{BulkAction, BulkFilter, BulkPreview, BulkRequest};
use counterstep_contracts::{Labels, ProblemCode, SettledAs, TaskStatus};
use counterstep_kernel::bulk::{self, BulkSpec};
use counterstep_kernel::dead_letters::Selection;
use counterstep_operations::filters::{declared_name, failure_filter, millis};
use counterstep_operations::{Caller, Refused, invalid, note};

pub(super) async fn post(
    api: web::Data<Api>,
    Authenticated(caller): Authenticated,
    request: HttpRequest,
    payload: web::Payload,
) -> Answer {
    Params::of(&request, &[])?;
    let body: BulkRequest = body(&api, &request, payload).await?;
    let note = note(&body.note, body.actor.as_deref())?.to_string();
    let selection = selection(&api, &caller, &body)?;
    match (body.action, body.settled) {
        (BulkAction::Resolve, None) => {
            let detail =
                "`resolve` needs `as`: what has become of the tasks, one of done, undone, skipped";
            return Err(invalid(detail).at("as").into());
        }
        (BulkAction::Redrive | BulkAction::Cancel | BulkAction::RunAgain, Some(_)) => {
            return Err(invalid("`as` goes with `resolve` only: leave it out")
                .at("as")
                .into());
        }
        (BulkAction::Resolve, Some(SettledAs::Redriven)) => {
            let detail = "`redriven` names the task that has done the work of one: resolve tasks one by one for that";
            return Err(invalid(detail).at("as").into());
        }
        _ => {}
    }
    if body.patch.is_some() && !matches!(body.action, BulkAction::Redrive | BulkAction::RunAgain) {
        let detail = "`patch` goes with `redrive` and `run-again` only: leave it out";
        return Err(invalid(detail).at("patch").into());
    }
    if body.from.is_some() && body.action != BulkAction::RunAgain {
        return Err(invalid("`from` goes with `run-again` only: leave it out")
            .at("from")
            .into());
    }
    if body.preview {
        let found = bulk::preview(&api.engine, body.action, &selection).await;
        return Ok(HttpResponse::Ok().json(BulkPreview {
            filter: body.filter,
            ..found.map_err(Refused::from)?
        }));
    }
    let spec = BulkSpec {
        action: body.action,
        settled: body.settled,
        patch: body.patch,
        from: body.from,
        selection,
        note,
        actor: caller.actor("operator"),
    };
    let engine = api.engine.clone();
    let starting = async move { bulk::start(&engine, spec).await.map_err(Refused::from) };
    let view = api.finish("starting a bulk operation", starting).await?;
    Ok(HttpResponse::Accepted().json(view))
}

fn selection(api: &Api, caller: &Caller, body: &BulkRequest) -> Result<Selection, Refused> {
    if body.group.is_none() && body.filter.is_none() {
        let detail = "which tasks? send a `group`, a `filter`, or both; an empty filter means all that the action is for";
        return Err(invalid(detail).at("group"));
    }
    if body.group.as_deref().is_some_and(|group| !is_group(group)) {
        let detail = "a group is named by the 16 digits of its id: see /api/dead-letters/groups";
        return Err(invalid(detail).at("group"));
    }
    let BulkFilter {
        task_type,
        status,
        labels,
        failure_class,
        failure_text,
        since,
        until,
    } = body.filter.clone().unwrap_or_default();
    let action = body.action;
    let all = TaskStatus::ALL.iter().filter(|it| action.is_for(**it));
    if !status.iter().all(|status| action.is_for(*status)) {
        let known: Vec<_> = all.map(|it| it.as_str()).collect();
        let detail = format!("with `{action}`, `status` is one of {}", known.join(", "));
        return Err(invalid(detail).at("filter.status"));
    }
    if status.is_empty() && action == BulkAction::RunAgain {
        let detail = "`run-again` is for tasks that ended in the way that you say: send a `status`";
        return Err(invalid(detail).at("filter.status"));
    }
    let statuses = all.filter(|it| status.is_empty() || status.contains(it));
    let time = |name: &'static str, text: Option<String>| {
        let time = text.map(|text| millis(name, &text)).transpose();
        time.map_err(|refused| refused.at(format!("filter.{name}")))
    };
    Ok(Selection {
        tenant: caller.tenant.clone(),
        task_type: task_type.map(|name| declared_name(&api.engine, &name)),
        statuses: statuses.copied().collect(),
        labels: checked(&labels)?,
        failure: failure_filter(failure_class.as_deref(), failure_text.as_deref())
            .map_err(|(field, detail)| invalid(detail).at(format!("filter.{field}")))?,
        group: body.group.clone(),
        since: time("since", since)?,
        until: time("until", until)?,
    })
}

fn is_group(text: &str) -> bool {
    text.len() == 16
        && text
            .bytes()
            .all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'))
}

fn checked(labels: &Labels) -> Result<Labels, Refused> {
    let mut known = Labels::new();
    for (name, value) in labels.iter() {
        known.look_for(name, value).map_err(|error| {
            Refused::new(ProblemCode::InvalidLabel, error.to_string()).at("filter.labels")
        })?;
    }
    Ok(known)
}
