//! A program whose task type takes state, for tests that start it with and without. `PROVIDES` names
//! what it provides, separated by commas: `bank`, `printer`.

use counterstep::prelude::*;
use std::process::ExitCode;

struct Bank(u32);

struct Printer;

struct Pay;

#[distributed_task]
impl Pay {
    type Request = u32;
    type Response = u32;

    #[step(1, host = "worker", undo = pay_back)]
    async fn charge(cents: &u32, bank: &State<Bank>) -> StepResult<u32> {
        Ok(cents + bank.0)
    }

    async fn pay_back(bank: &State<Bank>) -> UndoResult {
        let _ = bank.0;
        Ok(())
    }

    fn respond(charge: &u32) -> u32 {
        *charge
    }
}

fn main() -> ExitCode {
    let provides = std::env::var("PROVIDES").unwrap_or_default();
    let mut registry = Registry::new().with::<Pay>();
    for name in provides.split(',').filter(|name| !name.is_empty()) {
        registry = match name {
            "bank" => registry.provide(Bank(1)),
            "printer" => registry.provide(Printer),
            _ => panic!("`PROVIDES`: unknown name `{name}`; expected `bank` or `printer`"),
        };
    }
    counterstep::cli::main(registry)
}
