//! The task type `Checkout` under every fault at every step, under all that may go wrong around it, and one fault by hand.

use counterstep_testkit::simulation::simulate;
use counterstep_testkit::{Form, Harness, sweep};
use std::time::Duration;

use my_app::{Checkout, Stock, tasks};

fn order() -> Form {
    Form::to::<Checkout>()
        .field("item", "lamp")
        .field("card", "4711")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_leaves_a_clean_slate() {
    sweep::every_fault(tasks, order).await
}

/// Whole installations in a time of their own: processes are killed and paused, answers get lost, clients repeat and cancel.
#[test]
fn an_item_is_reserved_for_each_order_that_completes_and_for_no_other() {
    simulate::<Checkout>(order())
        .types(tasks)
        .within(Duration::from_secs(5))
        .check(|world| {
            let (items, completed) = (world.state::<Stock>().reserved(), world.completed());
            // An order that waits for a person may have its item.
            match (completed..=completed + world.parked()).contains(&items) {
                true => Ok(()),
                false => Err(format!(
                    "{items} items are reserved, {completed} tasks have completed"
                )),
            }
        });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_charge_that_fails_releases_the_item() {
    let stock = Stock::default();
    let task = Harness::embedded(tasks())
        .provide(stock.clone())
        // It does its work, then fails for good: its undo has something to take back.
        .fail_at("charge_card")
        .submit(order())
        .await;
    task.run_to_rest().await;
    task.assert_trail(
        "reserve_item ok, charge_card failed, charge_card undone, reserve_item undone, failed",
    )
    .await;
    assert_eq!(stock.reserved(), 0);
}
