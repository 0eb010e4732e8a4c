//! The limits that a program declares, by the names under which a person sets them: those of steps by their own,
//! how many tasks of a type may be under way by the type's.

use crate::admission::places::limit_name;
use crate::task::{Registry, TaskType};
use counterstep_contracts::Limit;
use counterstep_contracts::limit::DeclaredLimit;
use std::collections::BTreeMap;

/// What has the whole number for itself where tasks are counted by a key.
const PER_KEY: &str = "key";

/// All of them.
pub(super) fn declared(registry: &Registry) -> BTreeMap<String, DeclaredLimit> {
    let types = registry.iter();
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
