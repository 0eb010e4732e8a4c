//! A declaration that a `macro_rules!` writes: what its fragments pass on is read as if it stood
//! there.
#![deny(warnings)]

use counterstep_macros::distributed_task;
use counterstep_steps::{DistributedTask as _, RetryPolicy, StepContext, StepResult};

const TWICE: RetryPolicy = RetryPolicy::constant("1s").max_retries(1).jitter(false);

macro_rules! ping {
    ($task:ident, $name:literal, $version:literal, $no:literal, $timeout:literal, $host:literal, $why:literal,
     $retry:path, $policy:expr, $request:ty, $reference:ty, $optional:ty) => {
        struct $task;

        #[distributed_task(name = $name, version = $version, timeout = $timeout)]
        impl $task {
            type Request = $request;
            type Response = u32;

            #[step($no, host = $host, retry = $retry, timeout = $timeout, no_undo = $why)]
            async fn ping(_ctx: &StepContext, req: &$request) -> StepResult<u32> {
                Ok(u32::try_from(*req).unwrap_or_default())
            }

            #[step(2, host = $host, retry = $policy, when = wanted)]
            #[pure]
            async fn pong(ping: $reference) -> StepResult<u32> {
                Ok(*ping)
            }

            fn wanted(req: &$request) -> bool {
                *req > 1
            }

            fn respond(pong: $optional) -> u32 {
                pong.copied().unwrap_or_default()
            }
        }
    };
}

ping!(
    Ping,
    "Ping",
    3,
    1,
    "2s",
    "worker",
    "it only asks",
    self::TWICE,
    TWICE,
    u64,
    &u32,
    Option<&u32>
);

pub fn main() {
    let decl = Ping::task_type().decl;
    assert_eq!(
        (decl.name, decl.version, decl.steps[0].no.0),
        ("Ping", 3, 1)
    );
    assert_eq!((decl.request, decl.steps[1].inputs[0].ty), ("u64", "u32"));
    assert_eq!(
        (decl.steps[0].retry.name, decl.steps[1].retry.name),
        ("self::TWICE", "TWICE")
    );
}
