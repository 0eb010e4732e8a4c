//! A program whose task hands its request's words on: as an output, in a response, in the text of a
//! failure, in a panic. Its tests look for the words where they must not be.

use counterstep::prelude::*;
use serde::{Deserialize, Serialize};
use std::process::ExitCode;
use std::time::Duration;

#[derive(Serialize, Deserialize)]
struct Request {
    words: String,
    end: End,
}

#[derive(Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum End {
    Completes,
    Fails,
    Panics,
    /// Fails, and so does its undo.
    Stays,
}

#[derive(Serialize, Deserialize)]
struct Said {
    words: String,
}

#[derive(Serialize, Deserialize)]
struct Approval {
    words: String,
}

struct HandOn;

#[distributed_task(cancellable)]
impl HandOn {
    type Request = Request;
    type Response = Said;

    #[step(1, host = "worker", undo = unsay)]
    async fn say(request: &Request) -> StepResult<Said> {
        let words = format!("{}-output", request.words);
        Ok(Said { words })
    }

    async fn unsay(request: &Request) -> UndoResult {
        if request.end == End::Stays {
            return Err(StepError::permanent(format_args!("{}-undo", request.words)));
        }
        Ok(())
    }

    #[step(2, host = "worker")]
    fn approval(_request: &Request) -> AwaitSignal<Approval> {
        AwaitSignal::within_duration(Duration::from_secs(3600))
    }

    #[step(3, host = "worker", no_undo = "it only ends the task")]
    async fn end(request: &Request, approval: &Approval) -> StepResult<Said> {
        let words = &request.words;
        match request.end {
            End::Completes => Ok(Said {
                words: format!("{words}-{}", approval.words),
            }),
            End::Fails | End::Stays => Err(StepError::permanent(format_args!("{words}-failure"))),
            End::Panics => panic!("{words}-panic"),
        }
    }

    fn respond(end: &Said) -> Said {
        Said {
            words: format!("{}-response", end.words),
        }
    }
}

fn main() -> ExitCode {
    counterstep::cli::main(Registry::new().with::<HandOn>())
}
