//! Operations on many tasks: which there are, one of them, and stopping it.

use crate::{Cx, Refused, Run};
use counterstep_contracts::ProblemCode;
use counterstep_contracts::bulk::BulkView;
use counterstep_contracts::http::Page;
use counterstep_contracts::operation::bulk::{
    BulkId, GetBulkOperation, ListBulkOperations, StopBulkOperation,
};
use counterstep_kernel::bulk::{self, BulkError};

impl Run for ListBulkOperations {
    async fn run(cx: Cx, (): (), (): ()) -> Result<Page<BulkView>, Refused> {
        let items = bulk::list(&cx.engine.ports.store, &cx.caller.tenant).await?;
        Ok(Page::whole(items))
    }
}

impl Run for GetBulkOperation {
    async fn run(cx: Cx, BulkId(id): BulkId, (): ()) -> Result<BulkView, Refused> {
        Ok(bulk::show(&cx.engine.ports.store, &cx.caller.tenant, &id).await?)
    }
}

impl Run for StopBulkOperation {
    async fn run(cx: Cx, BulkId(id): BulkId, (): ()) -> Result<BulkView, Refused> {
        let (store, actor) = (&cx.engine.ports.store, cx.actor::<Self>());
        Ok(bulk::stop(store, &cx.caller.tenant, &id, &actor).await?)
    }
}

impl From<BulkError> for Refused {
    fn from(error: BulkError) -> Self {
        let detail = error.to_string();
        match error {
            BulkError::Gone => Refused::new(
                ProblemCode::NoSuchBulkOperation,
                "see /api/bulk-operations for those that there are",
            ),
            BulkError::Renamed(_) => Refused::new(ProblemCode::GroupRenamed, detail).at("group"),
            BulkError::TooMany => Refused::new(ProblemCode::TooManyRequests, detail),
            BulkError::Moved => Refused::new(ProblemCode::Unavailable, detail).retry_after(1),
            BulkError::Store(error) => error.into(),
        }
    }
}
