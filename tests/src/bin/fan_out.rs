//! A program whose task submits a task for each part of a list. What a part has done is a file in the
//! folder that `PARTS` names; its undo removes the file.

use counterstep::prelude::*;
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

struct Parts(PathBuf);

impl Parts {
    fn of(&self, ctx: &StepContext) -> PathBuf {
        self.0.join(ctx.task_id().to_string())
    }

    fn write(&self, ctx: &StepContext, text: &str) -> StepResult<()> {
        std::fs::write(self.of(ctx), text).transient("the part")
    }

    fn remove(&self, ctx: &StepContext) -> UndoResult {
        match std::fs::remove_file(self.of(ctx)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Ok(Err(error).transient("the part")?)
            }
            _ => Ok(()),
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Whole {
    /// Number of parts.
    parts: u32,
    /// Number of parts at a time.
    at_a_time: usize,
    /// This one fails permanently.
    broken: Option<u32>,
}

#[derive(Serialize, Deserialize)]
struct Part {
    no: u32,
    broken: bool,
}

struct MakePart;

#[distributed_task(max_recoveries = 20)]
impl MakePart {
    type Request = Part;
    type Response = u32;

    #[step(1, host = "worker", undo = unmake)]
    async fn make(ctx: &StepContext, part: &Part, parts: &State<Parts>) -> StepResult<u32> {
        parts.write(ctx, &part.no.to_string())?;
        tokio::time::sleep(Duration::from_millis(20)).await;
        Ok(part.no)
    }

    async fn unmake(ctx: &StepContext, parts: &State<Parts>) -> UndoResult {
        parts.remove(ctx)
    }

    #[step(2, host = "worker", no_undo = "it only looks")]
    async fn check(part: &Part) -> StepResult<()> {
        if part.broken {
            return Err(StepError::permanent("this part is broken"));
        }
        Ok(())
    }

    fn respond(make: &u32) -> u32 {
        *make
    }
}

struct MakeWhole;

#[distributed_task(max_recoveries = 20)]
impl MakeWhole {
    type Request = Whole;
    type Response = u32;

    #[step(1, host = "worker", undo = unplan)]
    async fn plan(ctx: &StepContext, whole: &Whole, parts: &State<Parts>) -> StepResult<Vec<Part>> {
        parts.write(ctx, "the plan")?;
        let part = |no| Part {
            no,
            broken: whole.broken == Some(no),
        };
        Ok((0..whole.parts).map(part).collect())
    }

    async fn unplan(ctx: &StepContext, parts: &State<Parts>) -> UndoResult {
        parts.remove(ctx)
    }

    #[step(2, host = "worker")]
    fn made(whole: &Whole, plan: &Vec<Part>) -> ForEach<MakePart> {
        ForEach::of(plan).at_a_time(whole.at_a_time)
    }

    fn respond(made: &Vec<u32>) -> u32 {
        made.iter().sum()
    }
}

fn main() -> ExitCode {
    let parts = Parts(std::env::var_os("PARTS").unwrap_or_default().into());
    let registry = Registry::new().with::<MakePart>().with::<MakeWhole>();
    counterstep::cli::main(registry.provide(parts))
}
