//! A program whose tasks are counted by a key. Each says to a service, at the address that `SERVICE` names, when
//! it begins and when it ends: a line on a connection, which the service closes.

use counterstep::prelude::*;
use serde::{Deserialize, Serialize};
use std::process::ExitCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The address of the service.
struct Service(String);

impl Service {
    async fn tell(&self, ctx: &StepContext, word: &str, key: &str) -> StepResult<u32> {
        let line = format!("{word} {key} {} {}\n", ctx.task_id(), ctx.attempt());
        let mut connection = TcpStream::connect(&self.0)
            .await
            .transient("calling the service")?;
        connection
            .write_all(line.as_bytes())
            .await
            .transient("telling the service")?;
        let mut answer = Vec::new();
        connection
            .read_to_end(&mut answer)
            .await
            .transient("the answer of the service")?;
        Ok(1)
    }
}

/// What is imported.
#[derive(Debug, Serialize, Deserialize)]
struct Import {
    key: String,
    /// How long it sleeps between its begin and its end.
    #[serde(default)]
    pause: Option<String>,
}

impl Import {
    fn sleep(&self) -> Sleep {
        Sleep::for_(self.pause.as_deref().unwrap_or("1ms"))
    }
}

const AGAIN: RetryPolicy = RetryPolicy::constant("50ms").max_retries(1000);

struct InTurn;

#[distributed_task(max_recoveries = 100, timeout = "1h", key = "req.key", at_once = 1)]
impl InTurn {
    type Request = Import;
    type Response = ();

    #[step(1, host = "worker", no_undo = "it only tells", retry = AGAIN)]
    async fn begin(ctx: &StepContext, req: &Import, service: &State<Service>) -> StepResult<u32> {
        service.tell(ctx, "begin", &req.key).await
    }

    #[step(2, host = "worker")]
    fn rest(req: &Import) -> Sleep {
        req.sleep()
    }

    #[step(3, host = "worker", no_undo = "it only tells", retry = AGAIN)]
    async fn end(ctx: &StepContext, req: &Import, service: &State<Service>) -> StepResult<u32> {
        service.tell(ctx, "end", &req.key).await
    }

    fn respond() {}
}

struct Newest;

#[distributed_task(
    max_recoveries = 100,
    timeout = "1h",
    key = "req.key",
    at_once = 1,
    beyond = "replace",
    cancellable
)]
impl Newest {
    type Request = Import;
    type Response = ();

    #[step(1, host = "worker", undo = undo_begin, retry = AGAIN)]
    async fn begin(ctx: &StepContext, req: &Import, service: &State<Service>) -> StepResult<u32> {
        service.tell(ctx, "begin", &req.key).await
    }

    async fn undo_begin(ctx: &StepContext, req: &Import, service: &State<Service>) -> UndoResult {
        service.tell(ctx, "end", &req.key).await.map(drop)
    }

    #[step(2, host = "worker")]
    fn rest(req: &Import) -> Sleep {
        req.sleep()
    }

    #[step(3, host = "worker", undo = undo_end, retry = AGAIN)]
    async fn end(ctx: &StepContext, req: &Import, service: &State<Service>) -> StepResult<u32> {
        service.tell(ctx, "end", &req.key).await
    }

    async fn undo_end() -> UndoResult {
        Ok(())
    }

    fn respond() {}
}

struct OnlyOne;

#[distributed_task(key = "req.key", at_once = 1, beyond = "refuse")]
impl OnlyOne {
    type Request = Import;
    type Response = ();

    #[step(1, host = "worker")]
    fn rest(req: &Import) -> Sleep {
        req.sleep()
    }

    fn respond() {}
}

fn main() -> ExitCode {
    let service = Service(std::env::var("SERVICE").unwrap_or_default());
    let registry = Registry::new()
        .with::<InTurn>()
        .with::<Newest>()
        .with::<OnlyOne>();
    counterstep::cli::main(registry.provide(service))
}
