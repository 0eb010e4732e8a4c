//! Queues.

use super::examples;
use super::params::{param, text};
use crate::openapi::{Operation, Reply};
use counterstep_contracts::ProblemCode as C;
use counterstep_contracts::http::Page;
use counterstep_contracts::operation::{Chapter, Param};
use counterstep_contracts::queue::{QueueRequest, QueueView};

const NAME: Param = param("name", "The name of the queue", text, "bookings");

pub(in super::super) const LIST: Operation = Operation::new(
    "listQueues",
    Chapter::Types,
    "List the queues, what waits on them, and which are paused",
)
.replies(&[Reply::json::<Page<QueueView>>(
    200,
    "All of them",
    examples::queues,
)]);

pub(in super::super) const PAUSE: Operation = Operation::new(
    "pauseQueue",
    Chapter::Types,
    "Claim no more tasks of a queue, in any process",
)
.path(&[NAME])
.body::<QueueRequest>(examples::pause_request)
.replies(&[Reply::json::<QueueView>(
    200,
    "Within a few seconds no task of it is claimed. What runs goes on",
    examples::paused_queue,
)])
.problems(&[C::NoSuchQueue]);

pub(in super::super) const RESUME: Operation = Operation::new(
    "resumeQueue",
    Chapter::Types,
    "Claim tasks of a queue again",
)
.path(&[NAME])
.body::<QueueRequest>(examples::resume_request)
.replies(&[Reply::json::<QueueView>(
    200,
    "Tasks of it are claimed",
    examples::queue,
)])
.problems(&[C::NoSuchQueue]);
