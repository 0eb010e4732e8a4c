//! The task type `Checkout` under every fault at every step, and one of them by hand.

use counterstep_testkit::{Form, Harness, sweep};

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
