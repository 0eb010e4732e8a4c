//! What the address of a request names: its segments, the id of a task, and the task of that id.

use crate::app_state::Api;
use actix_web::HttpRequest;
use counterstep_contracts::{ProblemCode, TaskId};
use counterstep_kernel::record::TaskRecord;
use counterstep_operations::{Caller, Refused};
use uuid::Uuid;

/// A segment of the path, percent-decoded. A scope around this interface may have named one of its own
/// alike: the last one is the route's.
pub(crate) fn segment<'a>(request: &'a HttpRequest, name: &str) -> &'a str {
    let named = request.match_info().iter().filter(|(of, _)| *of == name);
    named.last().map_or("", |(_, value)| value)
}

/// The task id in the path, in the one spelling that answers use.
pub(super) fn task_id(request: &HttpRequest) -> Result<TaskId, Refused> {
    let text = segment(request, "id");
    let id = Uuid::try_parse(text).ok().filter(|_| text.len() == 36);
    id.map(TaskId).ok_or_else(|| {
        let detail =
            "a task id is a UUID with hyphens: use the `task_id` of the answer to its submission";
        Refused::new(ProblemCode::MalformedParameter, detail).at("id")
    })
}

/// A task of the caller's tenant.
pub(super) async fn load(api: &Api, caller: &Caller, id: TaskId) -> Result<TaskRecord, Refused> {
    counterstep_operations::load(&api.engine, &caller.tenant, id).await
}
