//! What the address of a request names: its segments, the id of a task, and the task of that id.

use crate::app_state::Api;
use crate::caller::Caller;
use crate::problem::{Refused, no_such_task};
use crate::unreadable::unreadable;
use actix_web::HttpRequest;
use counterstep_contracts::{ProblemCode, TaskId, Tenant};
use counterstep_kernel::record::TaskRecord;
use counterstep_kernel::record::load;
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

/// A task of the caller's tenant. The answer must not reveal that another tenant has one of this id.
pub(super) async fn load(api: &Api, caller: &Caller, id: TaskId) -> Result<TaskRecord, Refused> {
    load_of(api, &caller.tenant, id).await
}

/// The same, of a tenant.
pub(super) async fn load_of(api: &Api, tenant: &Tenant, id: TaskId) -> Result<TaskRecord, Refused> {
    let record = match load::read(&api.engine, id).await {
        Ok(record) => record,
        Err(error) => return Err(unreadable(&api.engine, tenant, id, error).await),
    };
    record
        .filter(|record| record.task.tenant == *tenant)
        .ok_or_else(no_such_task)
}
