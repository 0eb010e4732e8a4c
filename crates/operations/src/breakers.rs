//! Breakers: how they stand, and closing one.

use crate::{Cx, Refused, Run};
use counterstep_contracts::ProblemCode;
use counterstep_contracts::http::Page;
use counterstep_contracts::operation::breakers::{BreakerName, CloseBreaker, ListBreakers};
use counterstep_contracts::workers::{BreakerRequest, BreakerStanding, BreakerView};
use counterstep_kernel::admission::breakers::{BreakerDecision, BreakerError, close_breaker};
use counterstep_kernel::status;
use counterstep_steps::breaker::BreakerState;

impl Run for ListBreakers {
    async fn run(cx: Cx, (): (), (): ()) -> Result<Page<BreakerView>, Refused> {
        let found = status::breakers(&cx.engine).await;
        let view = |(name, state)| BreakerView {
            name,
            state: match state {
                BreakerState::Closed => BreakerStanding::Closed,
                BreakerState::Open(_) => BreakerStanding::Open,
                BreakerState::HalfOpen => BreakerStanding::HalfOpen,
            },
        };
        Ok(Page::whole(found.into_iter().map(view).collect()))
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
        close_breaker(&cx.engine, &name, decision).await?;
        Ok(BreakerView {
            name,
            state: BreakerStanding::Closed,
        })
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
