//! The processes of an installation, and what is under way.

use crate::{Cx, Refused, Run};
use counterstep_contracts::operation::workers::ListWorkers;
use counterstep_contracts::workers::WorkersView;
use counterstep_kernel::status;

impl Run for ListWorkers {
    async fn run(cx: Cx, (): (), (): ()) -> Result<WorkersView, Refused> {
        Ok(status::read(&cx.engine).await?)
    }
}
