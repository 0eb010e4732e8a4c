//! Limits as people see and set them: what is declared, what holds instead, and what is in use. Values that
//! a person sets hold for all processes within a second, and stand until they are taken back.

use super::LimitValues;
use super::declared::declared;
use super::grant::LimitState;
use crate::admission::places::{TYPE_PREFIX, limit_name, type_of};
use crate::admission::setting::{Setting, SettingError, SettingOf, setting};
use crate::documents::{read_document, write_document};
use crate::engine::Engine;
use crate::ports::{Document, DocumentKind, DocumentQuery, PlaceCount, StoreError};
use crate::record::DbTime;
use counterstep_contracts::ConcurrencyDecl;
use counterstep_contracts::limit::{DeclaredLimit, LimitFault, Rate, fault_of};
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;

const KIND: DocumentKind = DocumentKind::LimitValues;

/// More limits than a program declares.
const MOST: u32 = 1_000;

/// Records that are read for a list: those written last.
const MOST_RECORDS: u32 = 1_000;

/// What a person has set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SetLimit {
    at_once: Option<u32>,
    rate: Option<Rate>,
    by: String,
    note: String,
}

/// A limit, what holds of it, and what is in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitRow {
    /// Its name.
    pub name: String,
    /// As this program declares it; `None`: it does not.
    pub declared: Option<DeclaredLimit>,
    /// What a person has set instead.
    pub set: Option<LimitSetting>,
    /// What is in use of it: one for all, or one for each tenant or label value.
    pub uses: Vec<LimitUse>,
}

/// Values that a person has set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitSetting {
    /// Maximum number of attempts at a time.
    pub at_once: Option<u32>,
    /// Maximum number of starts in a period.
    pub rate: Option<Rate>,
    /// Who has set them.
    pub by: String,
    /// Why.
    pub note: String,
    /// When, by the database's clock.
    pub since: DbTime,
}

/// What is in use of a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitUse {
    /// The tenant and the label value behind the limit's name; empty where all share it.
    pub of: String,
    /// Number of permits that are held, over all processes, or of places that tasks hold.
    pub held: u32,
    /// Number of attempts that wait for one in processes that look at it, or of tasks.
    pub waiting: u32,
    /// By process: permits held.
    pub holders: BTreeMap<String, u32>,
}

/// A limit was not set.
#[derive(Debug, thiserror::Error)]
pub enum LimitError {
    /// The values are impossible.
    #[error("the values are impossible: {0}")]
    Impossible(LimitFault),
    /// They are of attempts, and the limit is of tasks.
    #[error("tasks under way are counted, up to 1,000, and have no rate")]
    NotOfTasks,
    /// It could not be written.
    #[error(transparent)]
    Setting(#[from] SettingError),
}

async fn latest(
    engine: &Engine,
    kind: DocumentKind,
    limit: u32,
) -> Result<Vec<Document>, StoreError> {
    let query = DocumentQuery::Latest { kind, limit };
    Ok(engine.ports.store.documents(&query).await?.rows)
}

/// The values that people have set, by limit. One that cannot be read is left out and logged: what is
/// declared holds.
pub(super) async fn set_values(
    engine: &Engine,
) -> Result<BTreeMap<String, LimitValues>, StoreError> {
    let rows = latest(engine, KIND, MOST).await?;
    let read = rows.into_iter().filter_map(|row| {
        let set = read(&row)?;
        let values = LimitValues {
            at_once: set.at_once,
            rate: set.rate,
        };
        Some((row.name, values))
    });
    Ok(read.collect())
}

fn read(row: &Document) -> Option<SetLimit> {
    read_document::<SetLimit>(KIND, &row.body)
        .inspect_err(
            |error| tracing::warn!(limit = row.name, %error, "the values set for a limit cannot be read"),
        )
        .ok()
}

fn shown(row: &Document) -> Option<LimitSetting> {
    let set = read(row)?;
    Some(LimitSetting {
        at_once: set.at_once,
        rate: set.rate,
        by: set.by,
        note: set.note,
        since: row.seen_at,
    })
}

/// What a person has set for a limit.
pub(super) async fn setting_of(
    engine: &Engine,
    name: &str,
) -> Result<Option<LimitSetting>, StoreError> {
    let row = setting(engine, SettingOf::Limit, name).await?;
    Ok(row.as_ref().and_then(shown))
}

/// All limits that are declared, set or in use, by name.
///
/// # Errors
/// When the store does not answer.
pub fn limits(engine: &Engine) -> BoxFuture<'_, Result<Vec<LimitRow>, StoreError>> {
    Box::pin(async move {
        let mut rows: BTreeMap<String, LimitRow> = BTreeMap::new();
        for (name, limit) in declared(&engine.registry) {
            row_of(&mut rows, &name).declared = Some(limit);
        }
        for document in latest(engine, KIND, MOST).await? {
            if let Some(set) = shown(&document) {
                row_of(&mut rows, &document.name).set = Some(set);
            }
        }
        let query = DocumentQuery::Latest {
            kind: DocumentKind::Limit,
            limit: MOST_RECORDS,
        };
        let read = engine.ports.store.documents(&query).await?;
        for document in read.rows {
            let state: LimitState = match read_document(DocumentKind::Limit, &document.body) {
                Ok(state) => state,
                Err(error) => {
                    tracing::warn!(limit = document.name, %error, "the record of a limit cannot be read");
                    continue;
                }
            };
            let (name, of) = document
                .name
                .split_once('/')
                .unwrap_or((&document.name, ""));
            let live = state
                .holders
                .iter()
                .filter(|(_, holder)| holder.until > read.now);
            let mut usage = LimitUse {
                of: of.to_owned(),
                held: 0,
                waiting: 0,
                holders: BTreeMap::new(),
            };
            for (process, holder) in live {
                usage.held += holder.held;
                usage.waiting += holder.wanted.saturating_sub(holder.held);
                usage.holders.insert(process.clone(), holder.held);
            }
            row_of(&mut rows, name).uses.push(usage);
        }
        for count in engine.ports.store.place_counts(None, MOST_RECORDS).await? {
            let of = count
                .key
                .split_once('/')
                .map_or("", |(_, of)| of)
                .to_owned();
            let name = limit_name(type_of(&count.key));
            let PlaceCount { held, waiting, .. } = count;
            row_of(&mut rows, &name).uses.push(LimitUse {
                of,
                held,
                waiting,
                holders: BTreeMap::new(),
            });
        }
        Ok(rows.into_values().collect())
    })
}

impl LimitRow {
    /// A limit that is neither declared nor set nor in use.
    #[must_use]
    pub fn unused(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            declared: None,
            set: None,
            uses: Vec::new(),
        }
    }
}

fn row_of<'a>(rows: &'a mut BTreeMap<String, LimitRow>, name: &str) -> &'a mut LimitRow {
    rows.entry(name.to_owned())
        .or_insert_with(|| LimitRow::unused(name))
}

/// New values of a limit, and who sets them.
#[derive(Debug, Clone, Copy)]
pub struct NewLimit<'a> {
    /// Maximum number of attempts at a time.
    pub at_once: Option<u32>,
    /// Maximum number of starts in a period.
    pub rate: Option<Rate>,
    /// Who sets them.
    pub actor: &'a str,
    /// Why.
    pub note: &'a str,
}

/// Whether such values fit the limit of this name.
fn check(name: &str, at_once: Option<u32>, rate: Option<Rate>) -> Result<(), LimitError> {
    if let Some(fault) = fault_of(at_once, rate) {
        return Err(LimitError::Impossible(fault));
    }
    let counts = at_once.is_some_and(|at_once| at_once <= ConcurrencyDecl::MOST);
    match name.starts_with(TYPE_PREFIX) && (rate.is_some() || !counts) {
        true => Err(LimitError::NotOfTasks),
        false => Ok(()),
    }
}

/// Sets the values of a limit in place of those that are declared.
///
/// # Errors
/// [`LimitError`].
pub fn set_limit<'a>(
    engine: &'a Engine,
    name: &'a str,
    new: NewLimit<'a>,
) -> BoxFuture<'a, Result<(), LimitError>> {
    Box::pin(async move {
        check(name, new.at_once, new.rate)?;
        let set = SetLimit {
            at_once: new.at_once,
            rate: new.rate,
            by: new.actor.to_owned(),
            note: new.note.to_owned(),
        };
        let body = write_document(KIND, &set).map_err(SettingError::Store)?;
        let details = json!({"note": new.note, "at_once": new.at_once, "rate": new.rate});
        let set = of_limit(engine, name).write(engine, Some(body), "limit_set", new.actor, details);
        Ok(set.await.map(drop)?)
    })
}

/// Takes the values back that were set for a limit: what is declared holds again. `false`: none were set.
///
/// # Errors
/// [`LimitError`].
pub fn reset_limit<'a>(
    engine: &'a Engine,
    name: &'a str,
    actor: &'a str,
    note: &'a str,
) -> BoxFuture<'a, Result<bool, LimitError>> {
    Box::pin(async move {
        let details = json!({"note": note});
        let reset = of_limit(engine, name).write(engine, None, "limit_reset", actor, details);
        Ok(reset.await?)
    })
}

fn of_limit<'a>(engine: &Engine, name: &'a str) -> Setting<'a> {
    Setting {
        of: SettingOf::Limit,
        name,
        is_declared: declared(&engine.registry).contains_key(name),
    }
}
