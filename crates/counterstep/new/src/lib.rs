//! The task types of this program.

mod checkout;
mod stock;

pub use checkout::{Checkout, Order};
pub use stock::Stock;

use counterstep::prelude::*;

/// All of them, with what their steps share.
pub fn tasks() -> Registry {
    Registry::new().provide(Stock::default()).with::<Checkout>()
}
