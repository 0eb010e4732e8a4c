//! Messages that no host can read. They are of no tenant.

use crate::{Cx, Refused, Run};
use counterstep_contracts::ProblemCode;
use counterstep_contracts::dead_letter::PoisonMessages;
use counterstep_contracts::operation::poison::{ListPoisonMessages, PoisonId, RemovePoisonMessage};
use counterstep_kernel::dead_letters::poison;

impl Run for ListPoisonMessages {
    async fn run(cx: Cx, (): (), (): ()) -> Result<PoisonMessages, Refused> {
        let items = poison::list(&cx.engine.ports.store).await?;
        Ok(PoisonMessages { items })
    }
}

impl Run for RemovePoisonMessage {
    async fn run(cx: Cx, PoisonId(id): PoisonId, (): ()) -> Result<(), Refused> {
        let actor = cx.actor::<Self>();
        if poison::remove(&cx.engine.ports.store, &id, &actor).await? {
            return Ok(());
        }
        let detail = "see /api/poison-messages for those that there are";
        Err(Refused::new(ProblemCode::NoSuchPoison, detail))
    }
}
