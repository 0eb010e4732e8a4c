//! Breakers: how they stand, and closing one.

use crate::{Cx, Refused, Run};
use counterstep_contracts::ProblemCode;
use counterstep_contracts::http::Page;
use counterstep_contracts::operation::breakers::{BreakerName, CloseBreaker, ListBreakers};
use counterstep_contracts::workers::{BreakerRequest, BreakerView};
use counterstep_kernel::admission::breakers::{
    BreakerDecision, BreakerError, breakers_of_all, close_breaker,
};

impl Run for ListBreakers {
    async fn run(cx: Cx, (): (), (): ()) -> Result<Page<BreakerView>, Refused> {
        Ok(Page::whole(breakers_of_all(&cx.engine).await?))
    }
}

impl Run for CloseBreaker {
    async fn run(
        cx: Cx,
        BreakerName(name): BreakerName,
        input: BreakerRequest,
    ) -> Result<BreakerView, Refused> {
        let (actor, note) = cx.decided::<Self>(&input.note, input.actor.as_deref())?;
        let decision = BreakerDecision {
            actor: &actor,
            note: &note,
        };
        Ok(close_breaker(&cx.engine, &name, decision).await?)
    }
}

impl From<BreakerError> for Refused {
    fn from(error: BreakerError) -> Self {
        let detail = error.to_string();
        match error {
            BreakerError::Unknown => Self::new(
                ProblemCode::NoSuchBreaker,
                "see /api/breakers for those that there are",
            ),
            BreakerError::NoHints => Self::new(ProblemCode::Unavailable, detail).retry_after(1),
            BreakerError::Store(error) => error.into(),
        }
    }
}
