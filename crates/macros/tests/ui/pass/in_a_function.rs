//! A task type, its types and its policy are all local to a function; two tasks there share an
//! output type.
#![deny(warnings)]

use counterstep_macros::distributed_task;
use counterstep_steps::{DistributedTask as _, RetryPolicy, StepContext, StepResult, UndoResult};

pub fn main() {
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Receipt;
    const ONCE: RetryPolicy = RetryPolicy::NONE;
    struct First;
    struct Second;

    #[distributed_task]
    impl First {
        type Request = ();
        type Response = ();

        #[step(1, host = "api", retry = ONCE)]
        #[pure]
        async fn r#try(ctx: &StepContext, _nothing: &()) -> StepResult<Receipt> {
            let _ = ctx;
            Ok(Receipt)
        }

        fn respond(_receipt: &Receipt) {}
    }

    #[distributed_task]
    impl Second {
        type Request = ();
        type Response = ();

        #[step(1, host = "api")]
        async fn charge() -> StepResult<Receipt> {
            Ok(Receipt)
        }

        #[undo(charge)]
        async fn refund(ctx: &StepContext, _out: Option<Receipt>) -> UndoResult {
            let _ = ctx;
            Ok(())
        }

        fn respond(_receipt: &Receipt) {}
    }

    assert_eq!(First::task_type().decl.steps[0].name, "try");
    assert_eq!(Second::task_type().decl.steps[0].retry.name, "none");
}
