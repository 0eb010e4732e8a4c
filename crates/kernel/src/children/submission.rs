//! The first change of a task that a step submits. It is written with the change of its parent, so it
//! is there exactly where the parent's row says so.

use crate::admission::places::key_of;
use crate::builtin::ChildRequest;
use crate::change::transition::Transition;
use crate::draft::{As, Draft, NewTask};
use crate::engine::Engine;
use crate::error::{StepError, StepResult};
use crate::record::{TaskRecord, TaskRow};
use crate::task::{TaskType, guarded};
use counterstep_contracts::children::DEEPEST;
use counterstep_contracts::{Labels, ParentRef, StepNo};
use std::collections::BTreeMap;

/// The task with this number among those of a step. It has the tenant, the trace and the labels of its
/// parent, and the labels of its own type.
///
/// # Errors
/// Permanent, when its type is not registered, refuses the request, or makes a label that is none.
pub(crate) fn submission(
    engine: &Engine,
    parent: &TaskRow,
    step: StepNo,
    no: u32,
    child: &ChildRequest,
) -> StepResult<Transition> {
    let of = child.of;
    let refused = |why: String| StepError::permanent(format_args!("no task of `{of}`: {why}"));
    // A program may have left out the version that its code names: then it has always been the newest.
    let named = engine.registry.get(of, child.version);
    let Some(task_type) = named.or_else(|| engine.registry.newest(of)) else {
        return Err(refused(
            "the program does not have this type; expected `Registry::with` with it".to_owned(),
        ));
    };
    let request = (task_type.read_request)(child.request.clone())
        .map_err(|error| refused(format!("its request: {}: {}", error.pointer, error.message)))?;
    let depth = parent.parent.map_or(0, |parent| parent.depth) + 1;
    if depth > DEEPEST {
        return Err(refused(format!(
            "{DEEPEST} tasks stand above it already: do types await each other?"
        )));
    }
    let labels =
        labels(engine, &task_type, parent, &request).map_err(|error| refused(error.message))?;
    let place_key = key_of(engine, &task_type, &parent.tenant, &request)
        .map_err(|error| refused(error.message))?;
    let new = NewTask {
        id: engine.new_task_id(),
        tenant: parent.tenant.clone(),
        request,
        client_key: None,
        traceparent: parent.traceparent.clone(),
        labels,
        place_key,
        webhook: None,
        parent: Some(ParentRef {
            task: parent.id,
            step,
            no,
            depth,
        }),
    };
    let mut draft = Draft::of_submission(task_type.decl, new, &format!("task {}", parent.id));
    let mut failed = None;
    let respond = |record: &TaskRecord| {
        let inputs = engine.inputs(record.task.request.clone(), BTreeMap::new());
        guarded("respond", || (task_type.respond)(&inputs)).unwrap_or_else(|error| {
            failed = Some(error);
            serde_json::Value::Null
        })
    };
    draft
        .submit(Vec::new(), respond)
        .map_err(|illegal| refused(illegal.to_string()))?;
    if let Some(error) = failed {
        return Err(error);
    }
    Ok(engine.finish(draft, As::Anyone).1)
}

/// Those of its type first; of those of its parent as many as there is room for.
fn labels(
    engine: &Engine,
    task_type: &TaskType,
    parent: &TaskRow,
    request: &serde_json::Value,
) -> StepResult<Labels> {
    let mut labels = Labels::new();
    for (name, value) in engine.declared_labels(task_type, request)? {
        labels.add(name, &value).map_err(StepError::permanent)?;
    }
    for (name, value) in parent.labels.iter() {
        // Fails where the type has set the label, or there are too many: the parent's label is left out then.
        let _ = labels.add(name, value);
    }
    Ok(labels)
}
