//! How a limit stands for one task: for those who ask why it waits. Reads, and takes nothing.

use super::grant::{AHEAD, LimitState, LimitValues};
use super::{LimitKey, LimitSetting, admin};
use crate::documents::read_document;
use crate::engine::Engine;
use crate::ports::{DocumentKind, DocumentQuery, StoreError};
use crate::record::{DbTime, TaskRow};
use counterstep_contracts::{Limit, Rate, Tenant};

/// A limit as a task meets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitFound {
    /// Its name.
    pub name: String,
    /// The name of its record: the limit's, or behind it the tenant and the label's value.
    pub of: String,
    /// Maximum number of attempts at a time, as it holds now.
    pub at_once: Option<u32>,
    /// Maximum number of starts in a period, as it holds now.
    pub rate: Option<Rate>,
    /// What a person has set.
    pub set: Option<LimitSetting>,
    /// Permits that are held, ...
    pub held: u32,
    /// ... by this number of processes.
    pub holders: usize,
    /// The next start that its rate has left, where that is not near.
    pub next_start: Option<DbTime>,
}

impl LimitFound {
    /// Whether there is neither a permit nor a start.
    #[must_use]
    pub fn is_used_up(&self) -> bool {
        self.at_once.is_some_and(|most| self.held >= most) || self.next_start.is_some()
    }
}

/// Reads it.
pub(crate) async fn limit_found(
    engine: &Engine,
    limit: &Limit,
    task: &TaskRow,
) -> Result<LimitFound, StoreError> {
    let key = LimitKey::of(limit, task);
    let set = admin::setting_of(engine, limit.name).await?;
    let values = match &set {
        Some(set) => LimitValues {
            at_once: set.at_once,
            rate: set.rate,
        },
        None => LimitValues {
            at_once: limit.at_once,
            rate: limit.rate,
        },
    };
    let query = DocumentQuery::Named {
        kind: DocumentKind::Limit,
        tenant: Tenant::default(),
        names: vec![key.record().to_owned()],
    };
    let read = engine.ports.store.documents(&query).await?;
    let state: LimitState = match read.rows.first() {
        Some(row) => read_document(DocumentKind::Limit, &row.body)?,
        None => LimitState::default(),
    };
    let live = state.holders.values();
    let live: Vec<u32> = live
        .filter(|holder| holder.until > read.now)
        .map(|holder| holder.held)
        .collect();
    let is_far = |next: &DbTime| next.after(read.now) > AHEAD;
    Ok(LimitFound {
        name: limit.name.to_owned(),
        of: key.to_string(),
        at_once: values.at_once,
        rate: values.rate,
        set,
        held: live.iter().sum(),
        holders: live.iter().filter(|held| **held > 0).count(),
        next_start: values
            .rate
            .map(|rate| state.next_of(rate, read.now))
            .filter(is_far),
    })
}
