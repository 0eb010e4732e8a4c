//! Labels of every form, and what they are made into.
use counterstep_macros::distributed_task;
use counterstep_steps::StepResult;
use counterstep_steps::task::{DistributedTask as _, Inputs, output};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Serialize, Deserialize)]
pub struct Order {
    id: u64,
    customer: Option<String>,
    region: String,
}

impl Order {
    fn year(&self) -> u32 {
        2026
    }
}

pub struct PlaceOrder;

#[distributed_task(
    name = "PlaceOrder",
    label(
        order = "req.id",
        customer = "req.customer.as_deref().unwrap_or_default()",
        region = "req.region",
        "shop.year" = "req.year()",
        kind = "Self::KIND",
    ),
    cancellable
)]
impl PlaceOrder {
    type Request = Order;
    type Response = ();

    const KIND: &'static str = "plain";

    #[step(1, host = "api")]
    #[pure]
    async fn look(_order: &Order) -> StepResult<()> {
        Ok(())
    }

    fn respond(_order: &Order) {}
}

pub fn main() {
    let task_type = PlaceOrder::task_type();
    assert_eq!(
        task_type.decl.labels,
        ["order", "customer", "region", "shop.year", "kind"]
    );
    let request = output(&Order {
        id: 4711,
        customer: None,
        region: "eu".to_owned(),
    });
    let request = request.expect("JSON");
    let made = task_type.labels.expect("it declares some");
    let labels = made(&Inputs::new(request, BTreeMap::new())).expect("a request");
    let expected = [
        ("order", "4711"),
        ("customer", ""),
        ("region", "eu"),
        ("shop.year", "2026"),
        ("kind", "plain"),
    ];
    let expected: Vec<_> = expected
        .iter()
        .map(|(name, value)| (*name, (*value).to_owned()))
        .collect();
    assert_eq!(labels, expected);
}
