//! Steps that a submission carries out before it is accepted: pure ones on the api host, at the
//! head of the declaration. What has no effects needs no row before it runs, so a task whose
//! request is worked out first costs one commit less and starts with a completed step.
//!
//! Anything that does not come out well here is forgotten: the task is accepted without it, and the
//! step runs again under its lease, with its retries, its limit and its place in the audit.

use crate::cancel::CancelToken;
use crate::context::Execution;
use crate::draft::{NewTask, Received};
use crate::engine::Engine;
use crate::ports::{ByteStream, ObjectError, ObjectInfo, Objects};
use crate::scratch::scratch_files_in;
use crate::status::progress::Meter;
use crate::status::task_log::AttemptLog;
use crate::task::{Run, TaskFacts, TaskType};
use crate::turn::{Order, execute};
use async_trait::async_trait;
use counterstep_contracts::{Attempt, Direction, Epoch, Host, UndoDecl};
use futures::stream::BoxStream;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Runs what can be run, after the uploads in `received`. A client waits for it, so all of it ends
/// by `until`, a time of the process's clock: a second later at most.
pub(super) async fn run(
    engine: &Engine,
    task_type: &TaskType,
    new: &NewTask,
    received: &mut Vec<Received>,
    until: Duration,
) {
    let mut engine = engine.clone();
    engine.ports.objects = Arc::new(ReadOnly(engine.ports.objects.clone()));
    while is_pure(&engine, task_type, received.len()) {
        let at = received.len();
        let step = &task_type.decl.steps[at];
        let outputs: BTreeMap<_, _> = received
            .iter()
            .map(|done| {
                (
                    task_type.decl.steps[done.at].name.to_owned(),
                    done.output.clone(),
                )
            })
            .collect();
        let left = until.saturating_sub(engine.ports.clock.monotonic());
        if left.is_zero() {
            return;
        }
        // The request waits for neither a limit nor room; the task does, once it is accepted.
        if step.limit.is_some() {
            return;
        }
        let room = if step.heavy {
            engine.heavy.free_room()
        } else {
            None
        };
        if step.heavy && room.is_none() {
            return;
        }
        let order = Order {
            at,
            execution: Execution {
                tenant: new.tenant.clone(),
                task: new.id,
                step: step.name.to_owned(),
                direction: Direction::Forward,
                attempt: Attempt(1),
                epoch: Epoch(0),
            },
            inputs: engine.inputs(new.request.clone(), outputs),
            own_output: None,
            fallback: false,
            limit: {
                let limit = engine
                    .settings
                    .policies
                    .attempt_timeout(step, Direction::Forward);
                limit.map_or(left, |limit| limit.min(left))
            },
            cancel: CancelToken::new(),
            facts: TaskFacts {
                task_type: task_type.decl.name.to_owned(),
                client_key: new.client_key.clone(),
                labels: new.labels.clone(),
                traceparent: new.traceparent.clone(),
                // The commit that accepts it says when.
                submitted_at: None,
                deadline_at: None,
            },
            // No client can ask for a task that is not accepted yet.
            meter: Meter::default(),
            // It has a second.
            beats: None,
            // There is no task yet to keep it with.
            log: AttemptLog::default(),
            room,
            permit: None,
        };
        match execute(&engine, task_type, Box::new(order)).await.result {
            // The host that will read a scratch file may be another one.
            Ok(output) if scratch_files_in(new.id, &output).is_empty() => {
                received.push(Received {
                    at,
                    output,
                    has_intent: false,
                });
            }
            Ok(_) | Err(_) => return,
        }
    }
}

fn is_pure(engine: &Engine, task_type: &TaskType, at: usize) -> bool {
    let (Some(step), Some(code)) = (task_type.decl.steps.get(at), task_type.steps.get(at)) else {
        return false;
    };
    let planted = engine
        .settings
        .faults
        .iter()
        .any(|fault| fault.step == step.name);
    step.host == Host::Api
        && step.undo == UndoDecl::Pure
        && step.when.is_none()
        && step.group.is_none()
        // An attempt that may have to wait for a breaker waits under the task, not under the open
        // request.
        && step.breaker.is_none()
        // Its process would take a part of the time that the client waits for.
        && step.isolate.is_none()
        && matches!(code.run, Run::Custom(_))
        && !planted
}

/// Reads only: objects need an intent before their first byte, and there is none yet.
#[derive(Debug)]
struct ReadOnly(Arc<dyn Objects>);

fn too_early() -> ObjectError {
    ObjectError::Refused(
        "a pure step stores and deletes nothing; this one runs before its task is accepted"
            .to_owned(),
    )
}

#[async_trait]
impl Objects for ReadOnly {
    async fn put(&self, _: &str, _: &str, _: ByteStream) -> Result<u64, ObjectError> {
        Err(too_early())
    }

    async fn get(&self, bucket: &str, key: &str) -> Result<ByteStream, ObjectError> {
        self.0.get(bucket, key).await
    }

    async fn delete_prefix(&self, _: &str) -> Result<u64, ObjectError> {
        Err(too_early())
    }

    fn list(&self, prefix: &str) -> BoxStream<'static, Result<ObjectInfo, ObjectError>> {
        self.0.list(prefix)
    }
}
