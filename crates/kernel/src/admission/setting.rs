//! What people set by name: queues and processes that are paused, and values of limits. A setting is a document, and stands until a person takes it
//! back. A type that takes no submissions has a row with more than that, which `disable` writes; why it was not written is said
//! here, too. Must not know what a setting means.

use crate::audit::admin_audit::AdminChange;
use crate::documents::{Edit, delete, edit, named};
use crate::engine::Engine;
use crate::ports::{Document, DocumentChange, DocumentKind, DocumentWrite, StoreError};
use counterstep_contracts::{Rev, Tenant};
use serde_json::Value;
use std::fmt;

/// What may be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingOf {
    /// Whether a queue is paused.
    Queue,
    /// Whether the processes of a machine are paused.
    Workers,
    /// The values of a limit.
    Limit,
    /// Whether a task type takes submissions.
    TaskType,
}

impl SettingOf {
    pub(super) const fn kind(self) -> DocumentKind {
        match self {
            Self::Queue => DocumentKind::Queue,
            Self::Workers => DocumentKind::PausedWorkers,
            Self::Limit => DocumentKind::LimitValues,
            Self::TaskType => DocumentKind::TaskType,
        }
    }
}

impl fmt::Display for SettingOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Queue => "queue",
            Self::Workers => "machine",
            Self::Limit => "limit",
            Self::TaskType => "task type",
        })
    }
}

/// A setting was not changed.
#[derive(Debug, thiserror::Error)]
pub enum SettingError {
    /// Nothing here has it, and it was never set.
    #[error("there is no such {0} here")]
    Unknown(SettingOf),
    /// Every try met a revision conflict.
    #[error("the {0} was changed by others meanwhile: try again")]
    Moved(SettingOf),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// One of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setting<'a> {
    pub(super) of: SettingOf,
    pub(super) name: &'a str,
    /// Whether it is there to be set.
    pub(super) is_declared: bool,
}

impl Setting<'_> {
    /// Sets it, or takes it back where there is no body, with the entry of that in the audit. `false`: it was not set.
    pub(super) async fn write(
        self,
        engine: &Engine,
        body: Option<String>,
        event: &'static str,
        actor: &str,
        details: Value,
    ) -> Result<bool, SettingError> {
        let (kind, tenant, name) = (self.of.kind(), Tenant::default(), self.name.to_owned());
        let change = AdminChange {
            event,
            actor: actor.to_owned(),
            tenant: tenant.clone(),
            name: name.clone(),
            details,
        };
        let names = &[self.name];
        let written = edit(&engine.ports.store, kind, &tenant, names, |read| {
            let rev = read.rows.first().map(|row| row.rev);
            let write = match (&body, rev) {
                (_, None) if !self.is_declared => return Err(SettingError::Unknown(self.of)),
                (None, None) => return Ok(Edit::keep(false)),
                (None, Some(rev)) => delete(kind, tenant.clone(), name.clone(), rev),
                (Some(body), rev) => DocumentWrite {
                    kind,
                    tenant: tenant.clone(),
                    name: name.clone(),
                    expected: Some(rev.unwrap_or(Rev(0))),
                    change: DocumentChange::Put {
                        body: body.clone(),
                        due_at: None,
                    },
                },
            };
            Ok(Edit::write(write, true).audited(change.clone()))
        });
        written.await?.ok_or(SettingError::Moved(self.of))
    }
}

/// The document of a setting; `None`: it is not set.
pub(super) async fn setting(
    engine: &Engine,
    of: SettingOf,
    name: &str,
) -> Result<Option<Document>, StoreError> {
    let query = named(of.kind(), name);
    let read = engine.ports.store.documents(&query).await?;
    Ok(read.rows.into_iter().next())
}
