//! A program whose tasks come to each state that the operator's page shows: a shop for lamps, with steps side
//! by side, a long one, and an undo that fails for as long as a file is not there.

use counterstep::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// What is there while the bank takes refunds.
struct Bank(PathBuf);

/// An order.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Lamp {
    /// Its name.
    name: String,
    /// The step that fails, and how: `charge` after three tries, `ship` at once.
    #[serde(default)]
    fails_at: Option<String>,
    /// How long it is polished, in milliseconds.
    #[serde(default)]
    polish_ms: u64,
    /// Whether it waits for an approval.
    #[serde(default)]
    is_large: bool,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Approval {
    by: String,
}

#[derive(Serialize, Deserialize)]
struct Shelf {
    shelf: u32,
}

const QUICKLY: RetryPolicy = RetryPolicy::exponential("120ms").max_retries(2);
const ONCE: RetryPolicy = RetryPolicy::NONE;
const BANK: BreakerPolicy = BreakerPolicy::named("bank").after_failures(1000);
const CARRIER: Limit = Limit::named("carrier").at_once(20).rate(500, "1s");

struct OrderLamp;

#[distributed_task(queue = "lamps", max_recoveries = 5, cancellable)]
impl OrderLamp {
    type Request = Lamp;
    type Response = String;

    #[step(1, host = "worker", undo = release)]
    async fn reserve(lamp: &Lamp) -> StepResult<Shelf> {
        let shelf = u32::try_from(lamp.name.len()).permanent("the shelf")?;
        Ok(Shelf { shelf })
    }

    async fn release(_shelf: Option<Shelf>) -> UndoResult {
        Ok(())
    }

    #[step(2, host = "worker", group = "workshop", undo = unpolish)]
    async fn polish(ctx: &StepContext, lamp: &Lamp) -> StepResult<u32> {
        let parts = 20;
        for part in 0..parts {
            ctx.progress_with(part, parts, "with a soft cloth");
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(lamp.polish_ms / parts)) => {}
                _ = ctx.cancel().cancelled() => return Err(StepError::cancelled()),
            }
        }
        ctx.log(LogLevel::Warn, "a scratch <b>near the switch</b>");
        Ok(20)
    }

    async fn unpolish() -> UndoResult {
        Ok(())
    }

    #[step(
        3,
        host = "worker",
        group = "workshop",
        no_undo = "a label is only paper"
    )]
    async fn print_label(_lamp: &Lamp) -> StepResult<String> {
        Ok("label".to_owned())
    }

    #[step(4, host = "worker", when = is_large)]
    fn approval(_lamp: &Lamp) -> AwaitSignal<Approval> {
        AwaitSignal::within_duration(Duration::from_secs(3600))
    }

    fn is_large(lamp: &Lamp) -> bool {
        lamp.is_large
    }

    #[step(5, host = "worker", retry = QUICKLY, breaker = BANK, undo = refund, undo_retry = ONCE)]
    async fn charge(ctx: &StepContext, lamp: &Lamp) -> StepResult<u32> {
        tokio::time::sleep(Duration::from_millis(60)).await;
        if lamp.fails_at.as_deref() == Some("charge") && ctx.attempt().0 < 3 {
            return Err(StepError::transient("the bank did not answer within 50 ms"));
        }
        Ok(4711)
    }

    async fn refund(bank: &State<Bank>) -> UndoResult {
        tokio::time::sleep(Duration::from_millis(40)).await;
        match bank.0.exists() {
            true => Ok(()),
            false => Err(StepError::permanent(
                "the bank refuses the refund: the account is closed",
            )),
        }
    }

    #[step(6, host = "worker", retry = ONCE, limit = CARRIER, undo = call_back)]
    async fn ship(lamp: &Lamp) -> StepResult<String> {
        match lamp.fails_at.as_deref() {
            Some("ship") => Err(StepError::permanent("no carrier goes to 12345 Nowhere")),
            _ => Ok(format!("parcel {}", lamp.name)),
        }
    }

    async fn call_back() -> UndoResult {
        Ok(())
    }

    fn respond(ship: &String) -> String {
        ship.clone()
    }
}

struct CheckStock;

#[distributed_task(queue = "stock")]
impl CheckStock {
    type Request = Lamp;
    type Response = ();

    #[step(1, host = "worker", retry = ONCE, on_exhausted = "dead_letter", no_undo = "it only counts")]
    async fn count(lamp: &Lamp) -> StepResult<()> {
        match lamp.fails_at {
            Some(_) => Err(StepError::permanent("shelf 17 cannot be read")),
            None => Ok(()),
        }
    }

    fn respond() {}
}

fn main() -> ExitCode {
    let bank = Bank(std::env::var_os("BANK").unwrap_or_default().into());
    let nightly = Schedule::cron("nightly", "0 3 * * *", "Europe/Berlin")
        .request(json!({"name": "all"}))
        .misfire(Misfire::Skip);
    let registry = Registry::new()
        .with::<OrderLamp>()
        .with::<CheckStock>()
        .schedule::<CheckStock>(nightly);
    counterstep::cli::main(registry.provide(bank))
}
