//! What the address of a request names: its segments, the id of a task, the task of that id, and a task type.

use crate::app_state::Api;
use actix_web::HttpRequest;
use counterstep_contracts::TaskId;
use counterstep_contracts::operation::Target;
use counterstep_kernel::record::TaskRecord;
use counterstep_operations::{Caller, Refused, no_such_type};
use counterstep_steps::TaskType;

/// A segment of the path, percent-decoded. A scope around this interface may have named one of its own
/// alike: the last one is the route's.
pub(crate) fn segment<'a>(request: &'a HttpRequest, name: &str) -> &'a str {
    let named = request.match_info().iter().filter(|(of, _)| *of == name);
    named.last().map_or("", |(_, value)| value)
}

/// The task id in the path.
pub(super) fn task_id(request: &HttpRequest) -> Result<TaskId, Refused> {
    Ok(TaskId::parse(&[segment(request, "id")])?)
}

/// The newest version of the type whose name in kebab-case is in the path.
pub(super) fn by_route(api: &Api, request: &HttpRequest) -> Result<TaskType, Refused> {
    let found = api.engine.registry.by_route(segment(request, "id"));
    found.ok_or_else(no_such_type)
}

/// A task of the caller's tenant.
pub(super) async fn load(api: &Api, caller: &Caller, id: TaskId) -> Result<TaskRecord, Refused> {
    counterstep_operations::load(&api.engine, &caller.tenant, id).await
}
