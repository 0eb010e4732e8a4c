//! The limits that a program declares, by the names under which a person sets them: those of steps by their own,
//! how many tasks of a type may be under way by the type's.

use super::LimitError;
use crate::engine::Engine;
use crate::places::{TYPE_PREFIX, limit_name};
use crate::task::TaskType;
use counterstep_contracts::limit::{DeclaredLimit, Rate, fault_of};
use counterstep_contracts::{ConcurrencyDecl, Limit};
use std::collections::BTreeMap;

/// What has the whole number for itself where tasks are counted by a key.
const PER_KEY: &str = "key";

/// All of them.
pub(super) fn declared(engine: &Engine) -> BTreeMap<String, DeclaredLimit> {
    let types = engine.registry.iter();
    types.flat_map(of_type).collect()
}

fn of_type(task_type: &TaskType) -> Vec<(String, DeclaredLimit)> {
    let decl = task_type.decl;
    let steps = decl.steps.iter().filter_map(|step| step.limit);
    let mut all: Vec<_> = steps
        .map(|limit| (limit.name.to_owned(), shown(&limit)))
        .collect();
    if let Some(concurrency) = decl.flow.concurrency {
        let scope = decl.flow.key.map_or("all", |_| PER_KEY);
        let of_tasks = DeclaredLimit {
            at_once: Some(concurrency.at_once),
            rate: None,
            scope: scope.to_owned(),
        };
        all.push((limit_name(decl.name), of_tasks));
    }
    all
}

fn shown(limit: &Limit) -> DeclaredLimit {
    DeclaredLimit {
        at_once: limit.at_once,
        rate: limit.rate,
        scope: limit.scope.shown(),
    }
}

/// Whether such values fit the limit of this name.
pub(super) fn check(
    name: &str,
    at_once: Option<u32>,
    rate: Option<Rate>,
) -> Result<(), LimitError> {
    if let Some(fault) = fault_of(at_once, rate) {
        return Err(LimitError::Impossible(fault));
    }
    let counts = at_once.is_some_and(|at_once| at_once <= ConcurrencyDecl::MOST);
    match name.starts_with(TYPE_PREFIX) && (rate.is_some() || !counts) {
        true => Err(LimitError::NotOfTasks),
        false => Ok(()),
    }
}
