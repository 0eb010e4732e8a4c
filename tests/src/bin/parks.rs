//! A program whose second step fails for one of three causes while a service is down, each time with ids of its
//! own in the text. The service is at the address that `SERVICE` names: it is up where it sends `up`.

use counterstep::prelude::*;
use serde::{Deserialize, Serialize};
use std::process::ExitCode;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// The address of the called service.
struct Service(String);

impl Service {
    async fn is_up(&self) -> StepResult<bool> {
        let mut connection = TcpStream::connect(&self.0)
            .await
            .transient("calling the service")?;
        let mut answer = String::new();
        connection
            .read_to_string(&mut answer)
            .await
            .transient("the answer of the service")?;
        Ok(answer == "up")
    }
}

#[derive(Serialize, Deserialize)]
struct Reserved(u32);

struct Ship;

#[distributed_task(max_recoveries = 100, timeout = "1h")]
impl Ship {
    type Request = u32;
    type Response = u32;

    #[step(1, host = "worker", undo = release)]
    async fn reserve(no: &u32) -> StepResult<Reserved> {
        Ok(Reserved(*no))
    }

    async fn release() -> UndoResult {
        Ok(())
    }

    #[step(
        2,
        host = "worker",
        on_exhausted = "dead_letter",
        no_undo = "it only asks"
    )]
    async fn charge(
        ctx: &StepContext,
        no: &u32,
        reserved: &Reserved,
        service: &State<Service>,
    ) -> StepResult<u32> {
        if service.is_up().await? {
            return Ok(reserved.0);
        }
        let id = ctx.task_id();
        Err(StepError::permanent(match no % 3 {
            0 => format!("the bank refused payment {id} after {no}ms"),
            1 => format!("no account 'acme-{no}' for task {id}"),
            _ => format!("connection {no:08x} to 10.0.{}.7 was lost", no % 200),
        }))
    }

    fn respond(charge: &u32) -> u32 {
        *charge
    }
}

fn main() -> ExitCode {
    let service = Service(std::env::var("SERVICE").unwrap_or_default());
    let registry = Registry::new().with::<Ship>();
    counterstep::cli::main(registry.provide(service))
}
