//! What is written about task types: after a failure, by the reconciler, and when people say so.

use super::judge::{COUNTED, ProbeState, ProbeTimes, TypeStep, TypeVerdict, settle, weigh};
use crate::admission::setting::{SettingError, SettingOf};
use crate::audit::admin_audit::{self, AdminChange};
use crate::change::transition::Transition;
use crate::documents::{Edit, edit, read_type, type_write};
use crate::engine::Engine;
use crate::ports::{Disabled, FailureQuery, StoreError, TypeRow, TypeRows};
use crate::record::{DbTime, LOST, TaskRow};
use crate::task::TaskType;
use crate::webhooks::alerts;
use counterstep_contracts::declaration::StepKind;
use counterstep_contracts::{Host, StepDecl, TaskStatus, Tenant};
use futures::future::BoxFuture;
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;

/// A type that was disabled under a policy that is gone is probed after this.
const COOLDOWN: Duration = Duration::from_secs(300);

/// A probe that is written down becomes a task within this, where it does not bring files.
const PROBE_ARRIVES_WITHIN: Duration = Duration::from_secs(60);

/// What became of the types in a pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TypeReport {
    /// Disabled, for the first time or for another cooldown.
    pub disabled: usize,
    /// Enabled by their probes.
    pub enabled: usize,
    /// Failed, with the reason; they do not stop the others.
    pub failed: Vec<(String, String)>,
}

const fn has_failed(status: TaskStatus) -> bool {
    matches!(
        status,
        TaskStatus::Failed | TaskStatus::CompensationFailed | TaskStatus::DeadLettered
    )
}

/// Counts failures after a change that is one, and disables the type where there are too many.
/// The reconciler repeats what fails here.
pub(crate) async fn weigh_failure(engine: &Engine, transition: &Transition) {
    let failed = |row: &&TaskRow| {
        has_failed(row.status)
            && row
                .failure
                .as_ref()
                .is_some_and(|it| COUNTED.contains(&it.class.as_str()))
    };
    let Some(task) = transition
        .task
        .as_ref()
        .map(|task| &*task.row)
        .filter(failed)
    else {
        return;
    };
    let Some(task_type) = engine.registry.newest(&task.task_type) else {
        return;
    };
    if engine
        .settings
        .policies
        .auto_disable_of(task_type.decl)
        .is_none()
    {
        return;
    }
    let weighed = async {
        let read = engine.ports.store.types().await?;
        match weigh_type(engine, &task_type, &task.tenant, &read).await? {
            Some(step) => take(engine, step).await.map(drop),
            None => Ok(()),
        }
    };
    if let Err(error) = Box::pin(weighed).await {
        tracing::warn!(task_type = task.task_type, %error, "failures were not counted; the reconciler will");
    }
}

/// Whether the failures of a tenant's tasks disable the type. Those of several tenants are not
/// added up: what one of them brings about alone is most likely its own affair.
async fn weigh_type(
    engine: &Engine,
    task_type: &TaskType,
    tenant: &Tenant,
    read: &TypeRows,
) -> Result<Option<TypeStep>, StoreError> {
    let Some(policy) = engine.settings.policies.auto_disable_of(task_type.decl) else {
        return Ok(None);
    };
    let name = task_type.decl.name;
    let row = read.rows.iter().find(|row| row.name == name);
    if row.is_some_and(|row| row.disabled.is_some()) {
        return Ok(None);
    }
    let query = FailureQuery {
        tenant: tenant.clone(),
        classes: COUNTED,
        task_type: name.to_owned(),
        within: policy.within,
        counts_from: row.and_then(|row| row.counts_from),
        at_most: policy.after_failures,
    };
    let failures = engine.ports.store.failures(&query).await?;
    Ok(weigh(name, row, policy, failures, read.now))
}

/// The same for the tenants of which tasks have failed, one after the other.
async fn weigh_tenants(
    engine: &Engine,
    task_type: &TaskType,
    read: &TypeRows,
) -> Result<Option<TypeStep>, StoreError> {
    let Some(policy) = engine.settings.policies.auto_disable_of(task_type.decl) else {
        return Ok(None);
    };
    let store = &engine.ports.store;
    let tenants = store.failing_tenants(task_type.decl.name, policy.within);
    for tenant in tenants.await? {
        if let Some(step) = weigh_type(engine, task_type, &tenant, read).await? {
            return Ok(Some(step));
        }
    }
    Ok(None)
}

/// What follows from a row's probe.
async fn settle_type(
    engine: &Engine,
    row: &TypeRow,
    now: DbTime,
) -> Result<Option<TypeStep>, StoreError> {
    let Some((task, _)) = row.disabled.and_then(|disabled| disabled.probe) else {
        return Ok(None);
    };
    let state = |row: TaskRow| ProbeState {
        status: row.status,
        class: row.failure.map(|failure| failure.class),
    };
    let probe = match engine.ports.store.load(task).await {
        Err(StoreError::Corrupt(_)) => match engine.ports.store.salvage(task).await {
            // One whose own state cannot be read did not do well.
            Err(StoreError::Corrupt(_)) => Some(ProbeState {
                status: TaskStatus::DeadLettered,
                class: Some(LOST.to_owned()),
            }),
            // A newer program's task, which a program that can read it settles.
            Err(StoreError::Unsupported(_)) => return Ok(None),
            salvaged => salvaged?.map(|salvaged| state(*salvaged.record.task)),
        },
        Err(StoreError::Unsupported(_)) => return Ok(None),
        record => record?.map(|record| state(*record.task)),
    };
    let task_type = engine.registry.newest(&row.name);
    let policy = task_type
        .as_ref()
        .and_then(|known| engine.settings.policies.auto_disable_of(known.decl));
    let cooldown = policy.map_or(Some(COOLDOWN), |policy| policy.cooldown);
    let uploads = |step: &StepDecl| step.kind == StepKind::BuiltIn && step.host == Host::Api;
    let has_files = task_type.is_none_or(|known| known.decl.steps.iter().any(uploads));
    // As long as the intents of its files.
    let arrives_within = if has_files {
        engine.settings.upload_timeout * 2
    } else {
        PROBE_ARRIVES_WITHIN
    };
    let times = ProbeTimes {
        cooldown,
        arrives_within,
    };
    Ok(settle(row, probe.as_ref(), times, now))
}

/// The row of a type, its probe settled, and the clock; `None`: it never was disabled.
pub(super) async fn settled_row(
    engine: &Engine,
    task_type: &TaskType,
) -> Result<Option<(TypeRow, DbTime)>, StoreError> {
    loop {
        let read = engine.ports.store.types().await?;
        let Some(row) = read
            .rows
            .into_iter()
            .find(|row| row.name == task_type.decl.name)
        else {
            return Ok(None);
        };
        match settle_type(engine, &row, read.now).await? {
            None => return Ok(Some((row, read.now))),
            Some(step) => drop(take(engine, step).await?),
        }
    }
}

/// Writes a step. `false`: a revision conflict.
async fn take(engine: &Engine, step: TypeStep) -> Result<bool, StoreError> {
    let TypeStep { row, verdict } = step;
    let store = &engine.ports.store;
    let written = match verdict {
        TypeVerdict::Disabled => {
            let since = row.disabled.as_ref().map(|disabled| disabled.since);
            let alert =
                since.and_then(|since| alerts::of_type(engine, &row.name, &row.reason, since));
            let writes = [type_write(&row)?].into_iter().chain(alert).collect();
            admin_audit::put_all(store, writes, entry(&row, "type_disabled", None)).await?
        }
        TypeVerdict::Enabled => {
            admin_audit::put(store, type_write(&row)?, entry(&row, "type_enabled", None)).await?
        }
        TypeVerdict::StaysDisabled | TypeVerdict::ProbeGone => store.put_type(&row).await?,
    };
    if written {
        let (task_type, reason) = (&row.name, &row.reason);
        match verdict {
            TypeVerdict::Disabled | TypeVerdict::StaysDisabled => {
                tracing::error!(
                    task_type,
                    reason,
                    "ALERT: a task type is disabled and takes no submissions"
                );
            }
            TypeVerdict::Enabled => {
                tracing::warn!(task_type, reason, "a task type is enabled again")
            }
            TypeVerdict::ProbeGone => {
                tracing::info!(task_type, "a probe came to nothing; the next one may go")
            }
        }
    }
    engine.disabled_types.forget();
    Ok(written)
}

/// Writes a step of a plan. Failures are counted again: a task may have completed since, and no
/// row would tell.
async fn take_now(engine: &Engine, step: TypeStep) -> Result<bool, StoreError> {
    if step.verdict != TypeVerdict::Disabled {
        return take(engine, step).await;
    }
    let Some(task_type) = engine.registry.newest(&step.row.name) else {
        return Ok(false);
    };
    let read = engine.ports.store.types().await?;
    match weigh_tenants(engine, &task_type, &read).await? {
        Some(step) => take(engine, step).await,
        None => Ok(false),
    }
}

/// Plans what a pass does about task types. Changes nothing.
///
/// # Errors
/// When the store does not answer.
pub fn plan_types(engine: &Engine) -> BoxFuture<'_, Result<Vec<TypeStep>, StoreError>> {
    Box::pin(async move {
        let names: BTreeSet<&str> = engine
            .registry
            .iter()
            .map(|known| known.decl.name)
            .collect();
        let read = engine.ports.store.types().await?;
        let mut steps = Vec::new();
        for task_type in names
            .into_iter()
            .filter_map(|name| engine.registry.newest(name))
        {
            let row = read.rows.iter().find(|row| row.name == task_type.decl.name);
            if let Some(row) = row.filter(|row| row.disabled.is_some()) {
                steps.extend(settle_type(engine, row, read.now).await?);
            } else {
                steps.extend(weigh_tenants(engine, &task_type, &read).await?);
            }
        }
        Ok(steps)
    })
}

/// Executes a plan. Skips a step on a revision conflict.
pub fn run_types(engine: &Engine, plan: Vec<TypeStep>) -> BoxFuture<'_, TypeReport> {
    Box::pin(async move {
        let mut report = TypeReport::default();
        for step in plan {
            let (name, verdict) = (step.row.name.clone(), step.verdict);
            match (take_now(engine, step).await, verdict) {
                (Ok(true), TypeVerdict::Disabled | TypeVerdict::StaysDisabled) => {
                    report.disabled += 1
                }
                (Ok(true), TypeVerdict::Enabled) => report.enabled += 1,
                (Ok(true), TypeVerdict::ProbeGone) | (Ok(false), _) => {}
                (Err(error), _) => report.failed.push((name, error.to_string())),
            }
        }
        report
    })
}

/// What a person decides about a type.
#[derive(Debug, Clone, Copy)]
pub struct TypeDecision<'a> {
    /// Who, as the audit says it.
    pub actor: &'a str,
    /// The name that the caller gives itself.
    pub name: Option<&'a str>,
    /// Why: clients are told whose submissions are refused.
    pub note: &'a str,
}

impl TypeDecision<'_> {
    fn by(&self) -> String {
        match self.name {
            Some(name) => format!("{} ({name})", self.actor),
            None => self.actor.to_owned(),
        }
    }
}

/// A person disables a type, until a person enables it.
///
/// # Errors
/// [`SettingError`].
pub fn disable_type<'a>(
    engine: &'a Engine,
    name: &'a str,
    decision: TypeDecision<'a>,
) -> BoxFuture<'a, Result<TypeRow, SettingError>> {
    Box::pin(switch(engine, name, decision, |row, now| {
        row.disabled = Some(Disabled {
            since: now,
            probe_from: None,
            probe: None,
        });
    }))
}

/// A person enables a type. Failures from before do not count any more.
///
/// # Errors
/// [`SettingError`].
pub fn enable_type<'a>(
    engine: &'a Engine,
    name: &'a str,
    decision: TypeDecision<'a>,
) -> BoxFuture<'a, Result<TypeRow, SettingError>> {
    Box::pin(switch(engine, name, decision, |row, now| {
        (row.disabled, row.counts_from) = (None, Some(now));
    }))
}

/// The entry of a switch in the audit.
fn entry(row: &TypeRow, event: &'static str, by: Option<TypeDecision<'_>>) -> AdminChange {
    AdminChange {
        event,
        actor: by.map_or(row.by.as_str(), |by| by.actor).to_owned(),
        tenant: Tenant::default(),
        name: row.name.clone(),
        details: match by.and_then(|by| by.name) {
            Some(name) => json!({"note": row.reason, "by": name}),
            None => json!({"note": row.reason}),
        },
    }
}

async fn switch(
    engine: &Engine,
    name: &str,
    decision: TypeDecision<'_>,
    change: impl Fn(&mut TypeRow, DbTime),
) -> Result<TypeRow, SettingError> {
    if engine.registry.newest(name).is_none() {
        return Err(SettingError::Unknown(SettingOf::TaskType));
    }
    let (kind, tenant, names) = (SettingOf::TaskType.kind(), Tenant::default(), &[name]);
    let switched = edit(&engine.ports.store, kind, &tenant, names, |read| {
        let mut row = read.rows.into_iter().next().map_or_else(
            || TypeRow {
                name: name.to_owned(),
                ..TypeRow::default()
            },
            read_type,
        );
        change(&mut row, read.now);
        (row.by, row.reason) = (decision.by(), decision.note.to_owned());
        row.rev = row.rev.next();
        let event = match row.disabled {
            Some(_) => "type_disabled",
            None => "type_enabled",
        };
        let entry = entry(&row, event, Some(decision));
        Ok::<_, SettingError>(Edit::write(type_write(&row)?, row).audited(entry))
    });
    let switched = switched.await;
    engine.disabled_types.forget();
    let row = switched?.ok_or(SettingError::Moved(SettingOf::TaskType))?;
    tracing::warn!(
        task_type = name,
        by = row.by,
        disabled = row.disabled.is_some(),
        "a task type was switched"
    );
    Ok(row)
}
