//! The end of a request that has arrived whole: it is checked and becomes a task, in one change.
//! Must not store a file: that is over by then.

use super::accept::{Admitted, Arrival, Place};
use super::{Firing, Plan, UploadSession};
use crate::admission::disable::admission;
use crate::builtin::{FileSource, Upload};
use crate::change::queue_wait::QueueWait;
use crate::change::transition::{IdempotencyWrite, Transition};
use crate::client::submission::{
    SubmitError, Submitted, fingerprint, from_commit, invalid, replayed,
};
use crate::client::{idempotency, inline_steps, request_uploads};
use crate::draft::{As, BULK, Draft, NewTask, Received};
use crate::error::StepError;
use crate::payloads::without_text;
use crate::ports::{CommitError, StoreError};
use crate::record::TaskRecord;
use crate::retry_decision::INLINE_LIMIT;
use crate::task::{RequestError, guarded};
use counterstep_contracts::http::Accepted;
use counterstep_contracts::{Labels, StoredFile, StoredFiles};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Maximum tries after another submission took the slot.
const TRIES: u32 = 8;

/// Minimum time for which the key of a task of a bulk operation is remembered: the operation is listed no longer.
const BULK_KEY: Duration = Duration::from_secs(30 * 24 * 3600);

/// What a request that has arrived whole comes to.
#[derive(Debug)]
pub(in crate::client) enum Decided {
    /// A task, once this is written.
    New(Box<NewSubmission>),
    /// It repeats an earlier one.
    Replayed(Submitted),
}

/// The first change of a task that is not written yet.
#[derive(Debug)]
pub(in crate::client) struct NewSubmission {
    pub(in crate::client) transition: Arc<Transition>,
    pub(in crate::client) answer: Accepted,
    pub(in crate::client) fingerprint: String,
}

const MOVED: &str =
    "the form's later fields changed where its files belong: send text fields first";

impl UploadSession {
    /// How long its key is remembered: of a bulk operation, for as long as that operation may continue.
    fn remembered_for(&self) -> Duration {
        let ttl = self.engine.settings.idempotency_ttl;
        let of_bulk = |plan: &Plan| !plan.details[BULK].is_null();
        match self.again.as_ref().is_some_and(of_bulk) {
            true => ttl.max(BULK_KEY),
            false => ttl,
        }
    }

    /// The request has arrived whole: checks it and makes the task.
    ///
    /// # Errors
    /// When it breaks a rule, or the store does not answer. What it stored stays until
    /// [`abandon`](Self::abandon).
    pub fn submit(&mut self) -> BoxFuture<'_, Result<Submitted, SubmitError>> {
        Box::pin(async move {
            let until = self.engine.ports.clock.monotonic() + INLINE_LIMIT;
            let mut tries = 0;
            loop {
                let new = match self.decide(until).await? {
                    Decided::Replayed(submitted) => return Ok(submitted),
                    Decided::New(new) => new,
                };
                tries += 1;
                match self.commit(*new).await {
                    // Another submission has the place by now, and perhaps the last one.
                    Err(SubmitError::PlaceTaken) if tries < TRIES => {}
                    other => return other,
                }
            }
        })
    }

    /// Checks the request and decides on its task; writes nothing of it. Steps that run before it is
    /// accepted end by this time of the process's clock.
    pub(in crate::client) fn decide(
        &mut self,
        inline_until: Duration,
    ) -> BoxFuture<'_, Result<Decided, SubmitError>> {
        Box::pin(async move {
            let request = self.read()?;
            let uploads = request_uploads(&self.engine, &self.task_type, &request)
                .map_err(|error| self.of_declaration(error))?;
            let fingerprint = match &self.again {
                Some(plan) => plan.fingerprint.clone(),
                None => fingerprint(&self.task_type, self.sent()),
            };
            if let Some(first) = self.replay.clone() {
                return self
                    .repeats(&first, &fingerprint)
                    .await
                    .map(Decided::Replayed);
            }
            if self.received.keys().any(|received| {
                !self.keeps(*received) && !uploads.iter().any(|(at, _)| at == received)
            }) {
                return Err(invalid(".", MOVED).into());
            }
            for (at, upload) in &uploads {
                if upload.sources.is_empty() && !upload.may_be_empty && !self.keeps(*at) {
                    let field = self.field_of(*at, &request);
                    return Err(invalid(&field, "send at least one file").into());
                }
            }
            let mut received = uploads
                .iter()
                .filter(|(at, _)| !self.keeps(*at))
                .map(|(at, upload)| self.outputs_of(*at, upload))
                .collect::<Result<Vec<_>, SubmitError>>()?;
            let labels = self.labels(&request)?;
            let Place { key, no } = match self.accept(Arrival::Complete(&request)).await? {
                Admitted::New(place) => place,
                Admitted::Repeats(first) => {
                    return self
                        .repeats(&first, &fingerprint)
                        .await
                        .map(Decided::Replayed);
                }
            };
            let new = NewTask {
                id: self.id,
                tenant: self.submission.tenant.clone(),
                request,
                // Of a task that runs again the key is that of an operator.
                client_key: self.submission.key.clone().filter(|_| self.again.is_none()),
                traceparent: self.submission.traceparent.clone(),
                labels,
                parent: None,
                webhook: self.submission.webhook.clone(),
                place_key: key,
            };
            if !self.keeps(0) {
                inline_steps::run(
                    &self.engine,
                    &self.task_type,
                    &new,
                    &mut received,
                    inline_until,
                )
                .await;
            }
            let actor = self
                .firing
                .as_ref()
                .map_or(&*self.submission.actor, |firing| &firing.actor);
            let mut draft = Draft::of_submission(self.task_type.decl, new, actor);
            if let Some(Firing { write, details, .. }) = self.firing.clone() {
                draft.outgoing.set_schedule(write, details);
            }
            if let Some(again) = self.again_write() {
                draft.set_again(again);
            }
            let mut failed = None;
            let respond = |record: &TaskRecord| self.respond(record, &mut failed);
            if let Err(illegal) = draft.submit(received, respond) {
                return Err(SubmitError::Declaration(StepError::permanent(illegal)));
            }
            if let Some(error) = failed {
                return Err(self.of_declaration(error));
            }
            if let Some(no) = no.filter(|_| !draft.status().is_at_rest()) {
                draft.take_place(no);
            }
            let answer = Accepted {
                task_id: self.id,
                status: draft.status(),
            };
            if let Some(key) = self.submission.key.clone() {
                draft.outgoing.idempotency = Some(IdempotencyWrite::Finish {
                    tenant: self.submission.tenant.clone(),
                    key,
                    fingerprint: fingerprint.clone(),
                    answer: json!(answer),
                    expires_in: self.remembered_for(),
                });
            }
            let (_, transition, _) = self.engine.finish(draft, As::Anyone);
            Ok(Decided::New(Box::new(NewSubmission {
                transition: Arc::new(transition),
                answer,
                fingerprint,
            })))
        })
    }

    pub(in crate::client) fn commit(
        &mut self,
        new: NewSubmission,
    ) -> BoxFuture<'_, Result<Submitted, SubmitError>> {
        Box::pin(async move {
            let NewSubmission {
                transition,
                answer,
                fingerprint,
            } = new;
            // Schedules go on where the queue hangs.
            let wait = match self.firing {
                Some(_) => QueueWait::Brief,
                None => QueueWait::Full,
            };
            let mut written = self
                .engine
                .commit_new(std::slice::from_ref(&transition), wait)
                .await;
            if matches!(written, Err(CommitError::KeyTaken))
                && matches!(
                    idempotency::read(&self.engine, &self.submission).await,
                    Ok(None)
                )
            {
                written = self
                    .engine
                    .commit_new(std::slice::from_ref(&transition), wait)
                    .await;
            }
            match written {
                Ok(()) => {}
                // A request without files claims its key here: another one may have been faster.
                Err(CommitError::KeyTaken) => {
                    let taken = SubmitError::InProgress;
                    let first = idempotency::first_or(&self.engine, &self.submission, taken);
                    let first = first.await;
                    self.is_no_probe().await;
                    return self.repeats(&first?, &fingerprint).await;
                }
                Err(error) => {
                    if matches!(error, CommitError::Store(StoreError::Unknown(_))) {
                        // Its task may be there, and is the probe then.
                        self.probe = None;
                    }
                    return Err(from_commit(error));
                }
            }
            Ok(Submitted {
                answer,
                replayed: false,
            })
        })
    }

    /// The whole request as far as it has arrived.
    fn read(&mut self) -> Result<Value, RequestError> {
        if let Some(whole) = &self.whole {
            return (self.task_type.read_request)(whole.clone());
        }
        let files = self.sent_files();
        self.fields.read(self.task_type.read_request, &files)
    }

    /// The code of the task's author failed. Its text goes to the log of the process that takes the request.
    pub(super) fn of_declaration(&self, error: StepError) -> SubmitError {
        SubmitError::Declaration(without_text(&self.engine.ports.store, error))
    }

    /// What the client said, and what the declaration makes of the request.
    fn labels(&self, request: &Value) -> Result<Labels, SubmitError> {
        if let Some(plan) = &self.again {
            return self.labels_again(plan);
        }
        let mut labels = self.submission.labels.clone();
        let made = self.engine.declared_labels(&self.task_type, request);
        for (name, value) in made.map_err(|error| self.of_declaration(error))? {
            labels.declare(name, &value)?;
        }
        Ok(labels)
    }

    fn respond(&self, record: &TaskRecord, failed: &mut Option<StepError>) -> Value {
        let outputs = record
            .steps
            .iter()
            .filter_map(|row| row.output.clone().map(|output| (row.name.clone(), output)));
        let inputs = (self.engine).inputs(record.task.request.clone(), outputs.collect());
        guarded("respond", || (self.task_type.respond)(&inputs)).unwrap_or_else(|error| {
            *failed = Some(error);
            Value::Null
        })
    }

    /// Where it was to be a disabled type's probe: another submission may be.
    pub(super) async fn is_no_probe(&mut self) {
        if let Some(probe) = self.probe.take() {
            admission::give_up_probe(&self.engine, probe).await;
        }
    }

    /// The answer of the first request with its key, if that was the same.
    async fn repeats(
        &mut self,
        (first, answer): &(String, Value),
        fingerprint: &str,
    ) -> Result<Submitted, SubmitError> {
        if first != fingerprint {
            return Err(SubmitError::KeyMismatch);
        }
        let answer = replayed(answer);
        self.is_no_probe().await;
        answer
    }

    /// The output of an upload step whose files have arrived.
    fn outputs_of(&self, at: usize, upload: &Upload) -> Result<Received, SubmitError> {
        let mut files = Vec::with_capacity(upload.sources.len());
        for (source, name) in &upload.sources {
            let FileSource::Request(file) = source else {
                continue;
            };
            // Whatever a client writes into the request, only a file that came in with this very
            // request counts.
            if !self.keys.contains(&file.key) {
                return Err(invalid(
                    &file.field,
                    "send a file as a part of a multipart/form-data request",
                )
                .into());
            }
            if file.bucket != upload.bucket {
                return Err(invalid(".", MOVED).into());
            }
            files.push(StoredFile {
                name: name.as_ref().unwrap_or(&file.name).clone(),
                bucket: file.bucket.clone(),
                key: file.key.clone(),
                size_bytes: file.size_bytes,
                sha256: file.sha256.clone(),
                content_type: upload
                    .content_type
                    .as_ref()
                    .unwrap_or(&file.content_type)
                    .clone(),
            });
        }
        let has_intent = self.received.contains_key(&at);
        let output = if upload.many {
            Some(json!(StoredFiles(files)))
        } else {
            files.pop().map(|file| json!(file))
        };
        let output = output.ok_or_else(|| invalid("", "send one file"))?;
        Ok(Received {
            at,
            output,
            has_intent,
        })
    }
}
