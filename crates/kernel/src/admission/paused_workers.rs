//! Processes that people have paused, by machine and role: they take no task, whichever queue it is on, and what runs there goes on.
//! A pause stands until it is taken back, also over restarts.

use crate::admission::pauses::{self, Pause};
use crate::admission::setting::{Setting, SettingError, SettingOf, setting};
use crate::engine::Engine;
use crate::ports::{DocumentKind, StoreError, WorkerSeen};
use futures::future::BoxFuture;
use std::collections::BTreeMap;

const KIND: DocumentKind = DocumentKind::PausedWorkers;

/// The processes of a machine that have the same role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Processes {
    /// Name of the machine.
    pub machine: String,
    /// `worker`, `api`, or `dev`.
    pub role: String,
}

impl Processes {
    fn key(&self) -> String {
        key(&self.role, &self.machine)
    }

    /// Their key, and whether the worker registry has them. A role has no colon: the key of these would be that of others.
    async fn checked(&self, engine: &Engine) -> Result<(String, bool), SettingError> {
        if self.role.contains(':') {
            return Err(SettingError::Unknown(SettingOf::Workers));
        }
        Ok((self.key(), is_there(engine, self).await?))
    }
}

fn key(role: &str, machine: &str) -> String {
    format!("{role}:{machine}")
}

/// The pauses that stand.
#[derive(Debug, Clone, Default)]
pub struct PausedWorkers(BTreeMap<String, Pause>);

impl PausedWorkers {
    /// The pause of a process; `None`: it is not paused.
    #[must_use]
    pub fn of(&self, seen: &WorkerSeen) -> Option<&Pause> {
        self.0.get(&key(seen.role(), &seen.row.machine))
    }
}

/// All pauses of processes.
///
/// # Errors
/// When the store does not answer.
pub(crate) async fn paused_workers(engine: &Engine) -> Result<PausedWorkers, StoreError> {
    let rows = pauses::all(engine, KIND).await?.into_iter();
    let pauses = rows.map(|row| (row.name.clone(), pauses::read(KIND, &row)));
    Ok(PausedWorkers(pauses.collect()))
}

/// The processes that are paused, by role and machine, each with its pause.
///
/// # Errors
/// When the store does not answer.
pub fn all_paused(engine: &Engine) -> BoxFuture<'_, Result<Vec<(Processes, Pause)>, StoreError>> {
    Box::pin(async move {
        let pauses = paused_workers(engine).await?.0.into_iter();
        let named = |(key, pause): (String, Pause)| {
            let (role, machine) = key.split_once(':')?;
            let (role, machine) = (role.to_owned(), machine.to_owned());
            Some((Processes { machine, role }, pause))
        };
        Ok(pauses.filter_map(named).collect())
    })
}

/// The pause of processes; `None`: they are not paused.
///
/// # Errors
/// When the store does not answer.
pub fn pause_of<'a>(
    engine: &'a Engine,
    of: &'a Processes,
) -> BoxFuture<'a, Result<Option<Pause>, StoreError>> {
    Box::pin(async move {
        let found = setting(engine, SettingOf::Workers, &of.key()).await?;
        Ok(found.as_ref().map(|row| pauses::read(KIND, row)))
    })
}

/// Whether this process is paused.
pub(super) async fn is_paused_here(engine: &Engine) -> Result<bool, StoreError> {
    let role = engine.id.split_once(':').map_or("", |(role, _)| role);
    let key = key(role, &engine.settings.machine);
    Ok(setting(engine, SettingOf::Workers, &key).await?.is_some())
}

/// Pauses processes: a moment later they take no task any more.
///
/// # Errors
/// [`SettingError`].
pub fn pause_workers<'a>(
    engine: &'a Engine,
    of: &'a Processes,
    actor: &'a str,
    note: &'a str,
) -> BoxFuture<'a, Result<(), SettingError>> {
    Box::pin(async move {
        let (key, is_declared) = of.checked(engine).await?;
        let setting = setting_of(&key, is_declared);
        pauses::pause(engine, setting, "workers_paused", actor, note).await
    })
}

/// Lets them take tasks again. `false`: they were not paused.
///
/// # Errors
/// [`SettingError`].
pub fn resume_workers<'a>(
    engine: &'a Engine,
    of: &'a Processes,
    actor: &'a str,
    note: &'a str,
) -> BoxFuture<'a, Result<bool, SettingError>> {
    Box::pin(async move {
        let (key, is_declared) = of.checked(engine).await?;
        let setting = setting_of(&key, is_declared);
        pauses::resume(engine, setting, "workers_resumed", actor, note).await
    })
}

fn setting_of(key: &str, is_declared: bool) -> Setting<'_> {
    Setting {
        of: SettingOf::Workers,
        name: key,
        is_declared,
    }
}

/// Whether the worker registry has such processes, running or not, and they take tasks. A reconciler takes none.
async fn is_there(engine: &Engine, of: &Processes) -> Result<bool, StoreError> {
    let found = engine.ports.store.workers().await?;
    let mut rows = found.rows.iter();
    Ok(rows.any(|seen| {
        let is_it = (seen.role(), &seen.row.machine) == (&of.role, &of.machine);
        is_it && !seen.row.queues.is_empty()
    }))
}
