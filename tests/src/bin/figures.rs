//! A program whose tasks end in all the ways that metrics count: its tests look that each figure moves.

use counterstep::prelude::*;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// What becomes of a task.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum End {
    Works,
    Fails,
    /// Goes on until it is stopped.
    Hangs,
}

struct Walk;

#[distributed_task(queue = "walks", max_recoveries = 100, timeout = "1h", cancellable)]
impl Walk {
    type Request = End;
    type Response = ();

    #[step(1, host = "worker", undo = turn_back)]
    async fn set_out() -> StepResult<u32> {
        Ok(1)
    }

    async fn turn_back() -> UndoResult {
        Ok(())
    }

    #[step(2, host = "worker", no_undo = "it only walks", timeout = "1h")]
    async fn walk(ctx: &StepContext, end: &End, _set_out: &u32) -> StepResult<u64> {
        match end {
            End::Works => Ok(1),
            End::Fails => Err(StepError::permanent("no way")),
            End::Hangs => {
                ctx.cancel().cancelled().await;
                Err(StepError::cancelled())
            }
        }
    }

    fn respond() {}
}

struct Block;

#[distributed_task(queue = "walks", timeout = "1h")]
impl Block {
    type Request = End;
    type Response = ();

    #[step(1, host = "worker", no_undo = "it only blocks", timeout = "500ms")]
    async fn block(_end: &End) -> StepResult<u32> {
        // Longer than any test; its process is killed.
        std::thread::park_timeout(Duration::from_secs(600));
        Ok(1)
    }

    fn respond() {}
}

const ROAD: Limit = Limit::named("road").at_once(1);

struct Queue;

#[distributed_task(queue = "walks", max_recoveries = 100, timeout = "1h", cancellable)]
impl Queue {
    type Request = End;
    type Response = ();

    #[step(1, host = "worker", no_undo = "it only waits", timeout = "1h", limit = ROAD)]
    async fn wait(ctx: &StepContext, _end: &End) -> StepResult<u32> {
        ctx.cancel().cancelled().await;
        Err(StepError::cancelled())
    }

    fn respond() {}
}

const BRIDGE: BreakerPolicy = BreakerPolicy::named("bridge")
    .after_failures(1)
    .open_for("1h");
const AT_ONCE: RetryPolicy = RetryPolicy::constant("10ms").max_retries(1).jitter(false);

struct Cross;

#[distributed_task(queue = "walks", timeout = "1h", cancellable)]
impl Cross {
    type Request = End;
    type Response = ();

    #[step(1, host = "worker", no_undo = "it only looks", retry = AT_ONCE, breaker = BRIDGE)]
    async fn cross(_end: &End) -> StepResult<u32> {
        Err(StepError::transient("the bridge is closed"))
    }

    fn respond() {}
}

/// Ends when the file is there that its request names, whether or not the database is.
struct Linger;

#[distributed_task(queue = "walks", max_recoveries = 100, timeout = "1h")]
impl Linger {
    type Request = String;
    type Response = ();

    #[step(
        1,
        host = "worker",
        no_undo = "it only looks",
        timeout = "1h",
        when_cut_off = "finish"
    )]
    async fn linger(ctx: &StepContext, file: &String) -> StepResult<u32> {
        while !Path::new(file).exists() {
            if ctx.cancel().is_cancelled() {
                return Err(StepError::cancelled());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(1)
    }

    fn respond() {}
}

/// On a queue that no worker of the test serves.
struct Rest;

#[distributed_task(queue = "rests", timeout = "1h", cancellable)]
impl Rest {
    type Request = End;
    type Response = ();

    #[step(1, host = "worker", no_undo = "it only rests")]
    async fn rest(_end: &End) -> StepResult<u32> {
        Ok(1)
    }

    fn respond() {}
}

/// What is out while its task waits.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Fee {
    #[schemars(extend("x-amount" = {"minor": 2, "currency": "EUR"}))]
    cents: u64,
}

/// Pays, and waits for a person.
struct Park;

#[distributed_task(queue = "walks")]
impl Park {
    type Request = End;
    type Response = ();

    #[step(1, host = "worker", no_undo = "fees are not paid back")]
    async fn pay() -> StepResult<Fee> {
        Ok(Fee { cents: 250 })
    }

    #[step(
        2,
        host = "worker",
        on_exhausted = "dead_letter",
        no_undo = "it does nothing"
    )]
    async fn park(_end: &End, _pay: &Fee) -> StepResult<u32> {
        Err(StepError::permanent("a person has to look"))
    }

    fn respond() {}
}

fn main() -> ExitCode {
    let registry = Registry::new()
        .with::<Walk>()
        .with::<Block>()
        .with::<Queue>()
        .with::<Cross>()
        .with::<Linger>()
        .with::<Rest>()
        .with::<Park>();
    counterstep::cli::main(registry)
}
