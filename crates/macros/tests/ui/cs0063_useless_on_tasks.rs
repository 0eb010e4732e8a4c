//! A step that submits tasks has no retries, no limit, no fallback, no undo and no end of its own.

use counterstep_macros::distributed_task;
use counterstep_steps::{AwaitTask, ForEach, RetryPolicy, StepResult, UndoResult};

pub struct Small;

#[distributed_task]
impl Small {
    type Request = u8;
    type Response = u8;

    #[step(1, host = "worker", no_undo = "nothing is done")]
    async fn count(one: &u8) -> StepResult<u8> {
        Ok(*one)
    }

    fn respond(count: &u8) -> u8 {
        *count
    }
}

const OFTEN: RetryPolicy = RetryPolicy::NONE;

pub struct Task;

#[distributed_task]
impl Task {
    type Request = Vec<u8>;
    type Response = ();

    #[step(1, host = "worker", retry = OFTEN, timeout = "5s", on_exhausted = "fail")]
    fn one(list: &Vec<u8>) -> AwaitTask<Small> {
        AwaitTask::of(&list[0])
    }

    #[step(2, host = "worker", fallback = guess, undo = take_back)]
    fn all(request: &Vec<u8>) -> ForEach<Small> {
        ForEach::of(request)
    }

    async fn guess() -> StepResult<Vec<u8>> {
        Ok(Vec::new())
    }

    async fn take_back() -> UndoResult {
        Ok(())
    }

    fn respond(_list: &Vec<u8>) {}
}

fn main() {}
