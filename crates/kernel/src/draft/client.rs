//! What clients cause: submissions and cancels.

use super::{Decision, Draft, Note};
use crate::change::transition::Time;
use crate::journal::LABELS;
use crate::plan::{self, ForwardPlan};
use crate::record::{DbTime, StepRow, TaskRecord, TaskRow, UndoGoal};
use crate::saga::{Illegal, LifecycleEvent, StepEvent};
use crate::webhooks::WebhookUrl;
use counterstep_contracts::{
    Attempt, AuditSeq, ChangeId, Direction, Epoch, Host, Labels, ParentRef, Rev, TaskDecl, TaskId,
    TaskStatus, Tenant,
};
use serde_json::{Value, json};
use std::time::Duration;

/// A submission that was checked.
#[derive(Debug, Clone, PartialEq)]
pub struct NewTask {
    /// Its id; with uploads, the one under which they were received.
    pub id: TaskId,
    /// Tenant that owns it.
    pub tenant: Tenant,
    /// The canonical request.
    pub request: Value,
    /// The client's `Idempotency-Key`.
    pub client_key: Option<String>,
    /// W3C trace context.
    pub traceparent: Option<String>,
    /// What the client, the caller and the declaration say.
    pub labels: Labels,
    /// The task that submits it, where one does.
    pub parent: Option<ParentRef>,
    /// Where the client is told when it comes to rest.
    pub webhook: Option<WebhookUrl>,
    /// The key by which it is counted with others, where its type counts tasks.
    pub place_key: Option<String>,
}

/// An upload step that was carried out while the request arrived.
#[derive(Debug, Clone, PartialEq)]
pub struct Received {
    /// Its position in the declaration.
    pub at: usize,
    /// Its output.
    pub output: Value,
    /// It has bytes that a receive stands for; `false`: it had none to receive.
    pub has_intent: bool,
}

impl Draft {
    /// A task that does not exist yet.
    #[must_use]
    pub fn of_submission(decl: &'static TaskDecl, new: NewTask, actor: &str) -> Self {
        let never = DbTime(0);
        let task = TaskRow {
            id: new.id,
            tenant: new.tenant,
            task_type: decl.name.to_owned(),
            version: decl.version,
            definition_hash: decl.definition_hash(),
            status: TaskStatus::Submitted,
            waiting: None,
            host: Host::Worker,
            queue: decl.queue_of(Host::Worker).0,
            rev: Rev(0),
            epoch: Epoch(0),
            lease_owner: None,
            lease_expires_at: None,
            due_at: None,
            deadline_at: None,
            cancel_requested_at: None,
            goal: None,
            recovery_attempts: 0,
            audit_seq: AuditSeq(0),
            audit_seal: None,
            request: new.request,
            client_key: new.client_key,
            response: None,
            failure: None,
            residue: false,
            settled: None,
            earlier_requests: Vec::new(),
            traceparent: new.traceparent,
            labels: new.labels,
            parent: new.parent,
            webhook: new.webhook.map(|url| url.as_str().to_owned()),
            place_key: new.place_key,
            place_no: None,
            created_at: never,
            updated_at: never,
            finished_at: None,
            sweep_at: None,
            change_id: ChangeId(uuid::Uuid::nil()),
        };
        let steps = decl
            .steps
            .iter()
            .map(|step| StepRow::pending(step.no, step.name))
            .collect();
        let mut draft = Self::make(
            decl,
            None,
            TaskRecord {
                task: Box::new(task),
                steps,
                marks: Vec::new(),
                payload_key: None,
                now: never,
            },
            actor.to_owned(),
        );
        if let Some(timeout) = decl.timeout {
            draft.task.deadline = Time::In(timeout);
        }
        draft
    }

    /// Accepts the submission: the uploads are done, and the next host is told. `respond` is asked
    /// where nothing is left to do.
    ///
    /// # Errors
    /// As the judge says.
    pub fn submit(
        &mut self,
        received: Vec<Received>,
        respond: impl FnOnce(&TaskRecord) -> Value,
    ) -> Result<(), Illegal> {
        let details = self.submission_details();
        self.apply(LifecycleEvent::Submitted, Note::default().with(details))?;
        self.keep_steps()?;
        for upload in received {
            self.receive_step(upload)?;
        }
        match plan::forward(self.decl(), &self.record().steps, self.record().now) {
            ForwardPlan::Finish => {
                let response = respond(self.record());
                self.complete(response)
            }
            ForwardPlan::Start(first) => {
                let host = self.decl().steps[first[0]].host;
                if host == Host::Worker {
                    self.apply(LifecycleEvent::Dispatched, Note::default())?;
                }
                self.dispatch_to(host);
                Ok(())
            }
            ForwardPlan::Hold => Ok(()),
        }
    }

    /// What the first audit entry says: the schedule, and the labels, which the journal has from there.
    fn submission_details(&mut self) -> Value {
        let mut details = std::mem::take(&mut self.outgoing.submitted);
        let labels = &self.record().task.labels;
        if !labels.is_empty() {
            // Of a `Null` this makes an object.
            details[LABELS] = json!(labels);
        }
        details
    }

    fn receive_step(&mut self, upload: Received) -> Result<(), Illegal> {
        let Received {
            at,
            output,
            has_intent,
        } = upload;
        let attempt = Attempt(1);
        self.apply(StepEvent::Started.at(at), Note::attempt(attempt))?;
        if has_intent {
            self.attempts.takes_receive = true;
            let row = self.step_mut(at);
            row.attempts = attempt;
        } else {
            self.open_attempt(at, Direction::Forward, attempt, Duration::ZERO);
        }
        self.step_succeeded(at, output, has_intent)
    }

    /// Accepts a cancel; `decision`: of a person who has said why. Returns whether a host has to be told to
    /// stop.
    ///
    /// # Errors
    /// As the judge says.
    pub fn cancel(&mut self, decision: Option<&Decision>) -> Result<bool, Illegal> {
        let host = self.record().task.host;
        let note = decision.map(|decision| decision.note(Value::Null));
        self.apply(LifecycleEvent::CancelRequested, note.unwrap_or_default())?;
        self.mark_cancel_requested();
        match self.status() {
            TaskStatus::Running => Ok(true),
            TaskStatus::Compensating => {
                self.task_mut().goal = Some(UndoGoal::Cancelled);
                self.task.due = Time::Clear;
                self.dispatch_to(host);
                Ok(false)
            }
            TaskStatus::Submitted
            | TaskStatus::Dispatched
            | TaskStatus::Waiting
            | TaskStatus::Completed
            | TaskStatus::CompensationFailed
            | TaskStatus::Failed
            | TaskStatus::Cancelled
            | TaskStatus::DeadLettered
            | TaskStatus::Resolved => Ok(false),
        }
    }
}

/// The cancel's details for a client: the steps that will be undone.
#[must_use]
pub fn will_undo(decl: &TaskDecl, record: &TaskRecord) -> Vec<String> {
    plan::undo_order(decl, &record.steps)
        .into_iter()
        .map(|at| record.steps[at].name.clone())
        .collect()
}
