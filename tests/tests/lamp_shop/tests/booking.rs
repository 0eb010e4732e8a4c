//! The task type `BookSeat` under every fault at every step of it and of the task that it submits.

use counterstep_testkit::{Form, sweep};
use lamp_shop::{BookSeat, tasks};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_leaves_a_clean_slate() {
    sweep::every_fault(tasks, || {
        Form::to::<BookSeat>()
            .field("seat", "17")
            .answer("approval", json!({"by": "Ada"}))
    })
    .await
}
