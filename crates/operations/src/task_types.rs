//! Which task types there are, whether one takes submissions, what a person decides about that, and how long its steps take.

use crate::filters::{labels_of, millis};
use crate::{Cx, Refused, Run, no_such_type, note};
use counterstep_contracts::disable::{SwitchRequest, SwitchView};
use counterstep_contracts::durations::TypeDurations;
use counterstep_contracts::http::Page;
use counterstep_contracts::operation::Time;
use counterstep_contracts::operation::task_types::{
    DisableTaskType, DurationsQuery, EnableTaskType, GetTypeDurations, ListTaskTypes, TypeRoute,
};
use counterstep_contracts::task_type::TaskTypeView;
use counterstep_contracts::{Labels, ProblemCode};
use counterstep_kernel::Engine;
use counterstep_kernel::admission::SettingError;
use counterstep_kernel::admission::disable::{TypeDecision, disable_type, enable_type};
use counterstep_kernel::ports::TypeRow;
use counterstep_kernel::status::durations::{DurationsOf, durations};
use counterstep_steps::TaskType;
use counterstep_steps::times::{DbTime, rfc3339};
use futures::future::BoxFuture;
use std::time::Duration;

impl Run for ListTaskTypes {
    async fn run(cx: Cx, (): (), (): ()) -> Result<Page<TaskTypeView>, Refused> {
        let switches = cx.engine.ports.store.types().await?.rows;
        let registry = &cx.engine.registry;
        let view = |task_type: &TaskType| {
            let decl = task_type.decl;
            let row = switches.iter().find(|row| row.name == decl.name).cloned();
            let mut switch = type_switch(decl.name, row);
            if !cx.caller.is_of_installation() {
                // They may be of another tenant.
                (switch.probe, switch.by) = (None, None);
            }
            let declaration = cx.engine.settings.policies.shown(decl);
            Ok(TaskTypeView {
                declaration: declaration
                    .map_err(|error| Refused::internal("showing a declaration", &error))?,
                submit_to: format!("{}/api/tasks/{}", cx.mount_path, decl.route()),
                definition_hash: decl.definition_hash(),
                switch,
                signals: registry.signals_of(task_type).cloned().unwrap_or_default(),
            })
        };
        let items = registry.iter().map(view);
        Ok(Page::whole(items.collect::<Result<_, Refused>>()?))
    }
}

impl Run for DisableTaskType {
    fn find(cx: &Cx, route: &TypeRoute) -> Result<(), Refused> {
        name(cx, route).map(drop)
    }

    async fn run(cx: Cx, route: TypeRoute, input: SwitchRequest) -> Result<SwitchView, Refused> {
        switched(&cx, &route, &input, &cx.actor::<Self>(), disable_type).await
    }
}

impl Run for EnableTaskType {
    fn find(cx: &Cx, route: &TypeRoute) -> Result<(), Refused> {
        name(cx, route).map(drop)
    }

    async fn run(cx: Cx, route: TypeRoute, input: SwitchRequest) -> Result<SwitchView, Refused> {
        switched(&cx, &route, &input, &cx.actor::<Self>(), enable_type).await
    }
}

impl Run for GetTypeDurations {
    fn find(cx: &Cx, route: &TypeRoute) -> Result<(), Refused> {
        name(cx, route).map(drop)
    }

    async fn run(
        cx: Cx,
        route: TypeRoute,
        asked: DurationsQuery,
    ) -> Result<TypeDurations, Refused> {
        let time = |name: &'static str, text: Option<Time>| {
            let millis = text.map(|it| millis(name, &it.0)).transpose()?;
            Ok::<_, Refused>(millis.map(of_millis))
        };
        let labels = labels_of(asked.label.as_deref())?;
        let query = DurationsOf {
            tenant: &cx.caller.tenant,
            task_type: name(&cx, &route)?,
            since: time("since", asked.since)?,
            until: time("until", asked.until)?,
            took: asked.took_ms.map(Duration::from_millis),
            label: counted_label(&cx.engine, &labels)?,
        };
        let found = durations(&cx.engine.ports.store, &query).await?;
        Ok(TypeDurations {
            labels: cx.engine.settings.metrics_labels.clone(),
            ..found
        })
    }
}

/// The label that is asked for, if durations are counted by it.
fn counted_label<'a>(
    engine: &Engine,
    labels: &'a Labels,
) -> Result<Option<(&'a str, &'a str)>, Refused> {
    let counted = &engine.settings.metrics_labels;
    let label = labels.iter().next();
    let Some((name, _)) = label.filter(|(name, _)| !counted.iter().any(|it| it == name)) else {
        return Ok(label);
    };
    let detail = match &counted[..] {
        [] => format!("durations are counted by no label: list `{name}` in `metrics_labels` first"),
        counted => format!(
            "durations are counted by {} and not by `{name}`: list it in `metrics_labels` first",
            counted.join(", ")
        ),
    };
    Err(Refused::new(ProblemCode::InvalidLabel, detail).at("label"))
}

fn of_millis(millis: u64) -> DbTime {
    DbTime(i64::try_from(millis.saturating_mul(1_000)).unwrap_or(i64::MAX))
}

/// Disables or enables a type.
type Switch = for<'a> fn(
    &'a Engine,
    &'a str,
    TypeDecision<'a>,
) -> BoxFuture<'a, Result<TypeRow, SettingError>>;

async fn switched(
    cx: &Cx,
    route: &TypeRoute,
    input: &SwitchRequest,
    actor: &str,
    switch: Switch,
) -> Result<SwitchView, Refused> {
    let name = name(cx, route)?;
    let note = note(&input.note, input.actor.as_deref())?;
    let decision = TypeDecision {
        actor,
        name: note.actor.as_deref(),
        note: &note.text,
    };
    let row = switch(&cx.engine, name, decision).await?;
    Ok(type_switch(name, Some(row)))
}

fn name(cx: &Cx, route: &TypeRoute) -> Result<&'static str, Refused> {
    let task_type = cx.engine.registry.by_route(&route.0);
    Ok(task_type.ok_or_else(no_such_type)?.decl.name)
}

/// Whether a task type takes submissions; without a row it does.
fn type_switch(task_type: &str, row: Option<TypeRow>) -> SwitchView {
    let disabled = row.as_ref().and_then(|row| row.disabled);
    let (reason, by) = row.map(|row| (row.reason, row.by)).unzip();
    SwitchView {
        task_type: task_type.to_owned(),
        disabled_since: disabled.map(|disabled| rfc3339(disabled.since)),
        reason,
        by,
        probe_from: disabled
            .and_then(|disabled| disabled.probe_from)
            .map(rfc3339),
        probe: disabled
            .and_then(|disabled| disabled.probe)
            .map(|(task, _)| task),
    }
}
