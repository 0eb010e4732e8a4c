//! A program whose steps call a service under limits. The service is at the address that `SERVICE` names: a
//! call is a connection, and ends when the service closes it.

use counterstep::prelude::*;
use std::process::ExitCode;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// The address of the called service.
struct Service(String);

impl Service {
    async fn call(&self) -> StepResult<u32> {
        let mut connection = TcpStream::connect(&self.0)
            .await
            .transient("calling the service")?;
        let mut answer = Vec::new();
        connection
            .read_to_end(&mut answer)
            .await
            .transient("the answer of the service")?;
        Ok(1)
    }
}

const TEN: Limit = Limit::named("ten").at_once(10);
const FIFTY: Limit = Limit::named("fifty").rate(50, "1s");

struct CallTen;

#[distributed_task(max_recoveries = 100, timeout = "1h")]
impl CallTen {
    type Request = u32;
    type Response = ();

    #[step(1, host = "worker", no_undo = "it only asks", limit = TEN)]
    async fn call(_no: &u32, service: &State<Service>) -> StepResult<u32> {
        service.call().await
    }

    fn respond() {}
}

struct CallFifty;

#[distributed_task(max_recoveries = 100, timeout = "1h")]
impl CallFifty {
    type Request = u32;
    type Response = ();

    #[step(1, host = "worker", no_undo = "it only asks", limit = FIFTY)]
    async fn call(_no: &u32, service: &State<Service>) -> StepResult<u32> {
        service.call().await
    }

    fn respond() {}
}

struct CallFreely;

#[distributed_task(max_recoveries = 100, timeout = "1h")]
impl CallFreely {
    type Request = u32;
    type Response = ();

    #[step(1, host = "worker", no_undo = "it only asks")]
    async fn call(_no: &u32, service: &State<Service>) -> StepResult<u32> {
        service.call().await
    }

    fn respond() {}
}

struct CallFirst;

#[distributed_task(queue = "call-freely", priority = "high")]
impl CallFirst {
    type Request = u32;
    type Response = ();

    #[step(1, host = "worker", no_undo = "it only asks")]
    async fn call(_no: &u32, service: &State<Service>) -> StepResult<u32> {
        service.call().await
    }

    fn respond() {}
}

struct CallLast;

#[distributed_task(queue = "call-freely", priority = "low")]
impl CallLast {
    type Request = u32;
    type Response = ();

    #[step(1, host = "worker", no_undo = "it only asks")]
    async fn call(_no: &u32, service: &State<Service>) -> StepResult<u32> {
        service.call().await
    }

    fn respond() {}
}

fn main() -> ExitCode {
    let service = Service(std::env::var("SERVICE").unwrap_or_default());
    let registry = Registry::new()
        .with::<CallTen>()
        .with::<CallFifty>()
        .with::<CallFreely>()
        .with::<CallFirst>()
        .with::<CallLast>();
    counterstep::cli::main(registry.provide(service))
}
