//! The key by which tasks are counted: a name that stands in rows and in what operators see.

use crate::digest::hex;
use crate::engine::Engine;
use crate::error::StepResult;
use crate::ports::PlaceRow;
use crate::task::{TaskType, guarded};
use counterstep_contracts::{TaskId, Tenant};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Hexadecimal digits that are kept of the digest.
const DIGITS: usize = 32;

/// The key of a request; `None`: its type counts no tasks. What the declaration makes of the request is
/// not in it, but its digest: it may be about a person.
///
/// # Errors
/// As the code of the declaration does.
pub(crate) fn key_of(
    engine: &Engine,
    task_type: &TaskType,
    tenant: &Tenant,
    request: &Value,
) -> StepResult<Option<String>> {
    let name = task_type.decl.name;
    if task_type.decl.flow.concurrency.is_none() {
        return Ok(None);
    }
    let Some(make) = task_type.key else {
        return Ok(Some(name.to_owned()));
    };
    let inputs = engine.inputs(request.clone(), BTreeMap::new());
    let value = guarded("key", || make(&inputs))?;
    // Neither a type nor a tenant has a slash in its name: no key is taken for another one.
    let digest = hex(&Sha256::digest(value.as_bytes()));
    Ok(Some(format!("{name}/{tenant}/{}", &digest[..DIGITS])))
}

/// Some of the tasks that hold the places of a key: none where tasks of all tenants share it, of whom a client
/// must not learn.
pub(crate) fn named(rows: &[PlaceRow], key: &str, most: usize) -> Vec<TaskId> {
    let is_of_one_tenant = key.contains('/');
    let held = rows
        .iter()
        .filter(|row| is_of_one_tenant && row.no.is_some());
    held.take(most).map(|row| row.task).collect()
}
