//! Aliases, module paths, reading by name and by type, conditions, groups, purity, both ways to
//! name an undo, two sources of one type, `Self` in types, functions of the author's own.
#![deny(warnings)]

use counterstep_macros::distributed_task;
use counterstep_steps as steps;
use steps::{StepContext, StepError, StepResult, UndoResult};

mod shop {
    use serde::{Deserialize, Serialize};

    #[derive(Serialize, Deserialize, Clone)]
    pub struct Order {
        pub gift: bool,
    }
    #[derive(Serialize, Deserialize)]
    pub struct Receipt(pub u32);
    #[derive(Serialize, Deserialize)]
    pub struct Wrapping;

    pub mod policies {
        pub const PATIENT: counterstep_steps::RetryPolicy =
            counterstep_steps::RetryPolicy::constant("2s");
        pub const BANK: counterstep_steps::BreakerPolicy =
            counterstep_steps::BreakerPolicy::named("bank");
        pub const TEN_CALLS: counterstep_steps::Limit =
            counterstep_steps::Limit::named("bank").at_once(10);
    }
}
mod place_order {
    #[derive(serde::Serialize, serde::Deserialize)]
    pub struct Label;
}

type Charged = StepResult<shop::Receipt>;
type Slip = shop::Receipt;
type Undone = UndoResult;

pub struct PlaceOrder;

pub const BY_HAND: counterstep_steps::AutoDisable =
    counterstep_steps::AutoDisable::after_failures(3).until_enabled();

#[distributed_task(on_undo_failure = "continue", lease = "3s", auto_disable = BY_HAND, key = "req.gift", at_once = 3,
                   beyond = "replace", cancellable)]
impl PlaceOrder {
    type Request = shop::Order;
    type Response = Vec<u32>;

    const NOTE: &'static str = "an author's own constant";

    #[step(30, host = "worker", undo = release, probe = look, probe_retry = shop::policies::PATIENT,
           on_probe_failure = "run_again", undo_retry = shop::policies::PATIENT, timeout = "30s",
           breaker = shop::policies::BANK, limit = shop::policies::TEN_CALLS)]
    async fn charge(ctx: &StepContext, order: &shop::Order) -> Charged {
        let _ = (ctx.effect_key(), order.gift);
        Ok(shop::Receipt(1))
    }

    async fn look(ctx: &StepContext, order: &shop::Order) -> StepResult<steps::Probe<Slip>> {
        let _ = (ctx.effect_key(), order.gift);
        Ok(steps::Probe::Done(shop::Receipt(1)))
    }

    // Out of order on purpose: numbers count. Its name is that of a module in scope.
    #[step(10, host = "api")]
    #[pure]
    async fn place_order(_order: &shop::Order) -> Result<place_order::Label, StepError> {
        Ok(place_order::Label)
    }

    #[step(40, host = "worker", when = is_gift, no_undo = "paper", group = "pack", on_exhausted = "fail")]
    async fn wrap(receipt: &Slip) -> StepResult<shop::Wrapping> {
        let _ = receipt;
        Ok(shop::Wrapping)
    }

    #[step(41, host = "worker", group = "pack", on_exhausted = "dead_letter", retry = shop::policies::PATIENT)]
    async fn label(place_order: &place_order::Label, slip: &shop::Receipt) -> StepResult<()> {
        let _ = (place_order, slip);
        Ok(())
    }

    // A second receipt, under another name of the type: no conflict as long as it is read by name.
    #[step(50, host = "api", no_undo = "tells only")]
    async fn tell(
        wrapping: Option<&shop::Wrapping>,
        wrap: Option<&shop::Wrapping>,
        charge: &Slip,
    ) -> StepResult<Slip> {
        let _ = (wrapping, wrap);
        Ok(shop::Receipt(charge.0))
    }

    async fn release(
        ctx: &StepContext,
        out: Option<Slip>,
        order: &shop::Order,
        tag: &place_order::Label,
    ) -> Undone {
        let _ = (ctx, out, order, tag);
        Ok(())
    }

    #[undo(label)]
    async fn peel(_out: Option<()>, charge: &shop::Receipt) -> UndoResult {
        let _ = charge;
        Ok(())
    }

    fn is_gift(order: &shop::Order, charge: &shop::Receipt) -> bool {
        order.gift && charge.0 > 0 && Self::own(Self::NOTE)
    }

    fn own(note: &str) -> bool {
        !note.is_empty()
    }

    fn respond(
        order: &shop::Order,
        place_order: &place_order::Label,
        charge: &shop::Receipt,
        wrap: Option<&shop::Wrapping>,
        nothing: &(),
        tell: &shop::Receipt,
    ) -> Vec<u32> {
        let _ = (order, place_order, wrap, nothing);
        vec![charge.0, tell.0]
    }
}

pub fn main() {
    use steps::DistributedTask as _;
    let decl = PlaceOrder::task_type().decl;
    assert_eq!(
        decl.steps.iter().map(|step| step.name).collect::<Vec<_>>(),
        ["place_order", "charge", "wrap", "label", "tell"]
    );
}
