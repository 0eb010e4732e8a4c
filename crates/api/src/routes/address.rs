//! What the address of a request names: its segments, the id of a task, and the task of that id.

use crate::app_state::Api;
use actix_web::HttpRequest;
use counterstep_contracts::TaskId;
use counterstep_contracts::operation::Target;
use counterstep_kernel::record::TaskRecord;
use counterstep_operations::{Caller, Refused};

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

/// A task of the caller's tenant.
pub(super) async fn load(api: &Api, caller: &Caller, id: TaskId) -> Result<TaskRecord, Refused> {
    counterstep_operations::load(&api.engine, &caller.tenant, id).await
}
