//! Receive, then submit. Files are streamed to their place while the request arrives, under an
//! intent that was committed before the first byte; the submission then makes task, idempotency row
//! and upload steps in one change.

mod abandon;
mod accept;
mod again;
mod begin;
mod submit;

use accept::{Admitted, Arrival};
pub(super) use submit::{Decided, NewSubmission};

use super::run_again::Plan;
use super::submission::{Submission, SubmitError, both, from_objects, invalid};
use super::texts::Fields;
use super::{idempotency, request_uploads};
use crate::builtin::FileSource;
use crate::digest::measured;
use crate::engine::Engine;
use crate::keys;
use crate::ports::{ByteStream, DocumentWrite, TypeRow};
use crate::task::{RequestError, TaskType};
use counterstep_contracts::{Attempt, Epoch, FileName, TaskId, UploadedFile};
use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The schedule that submits a request, in place of a client.
#[derive(Debug, Clone)]
pub struct Firing {
    /// The schedule afterwards, written with the task.
    pub write: DocumentWrite,
    /// What the audit says of it.
    pub details: Value,
    /// Who fires it.
    pub actor: String,
}

/// A file before its first byte.
fn arriving(field: &str, name: FileName, content_type: &str) -> UploadedFile {
    UploadedFile {
        field: field.to_owned(),
        name,
        content_type: content_type.to_owned(),
        size_bytes: 0,
        sha256: String::new(),
        bucket: String::new(),
        key: String::new(),
    }
}

/// A request on its way in. Dropped without [`submit`](Self::submit) or [`abandon`](Self::abandon),
/// what it stored is left to the sweep.
#[derive(Debug)]
pub struct UploadSession {
    engine: Engine,
    task_type: TaskType,
    submission: Submission,
    id: TaskId,
    /// The request's fields that are no files.
    fields: Fields,
    /// The request, where it is no object and so has no fields.
    whole: Option<Value>,
    /// The files of each field, in the order of their arrival.
    files: BTreeMap<String, Vec<UploadedFile>>,
    /// Files received per step.
    received: BTreeMap<usize, u32>,
    keys: BTreeSet<String>,
    /// The first request's fingerprint and answer, where this one repeats it: then nothing is
    /// stored.
    replay: Option<(String, Value)>,
    /// Its receive and its key may be in the store.
    begun: bool,
    /// The ids of earlier tries of its receive without an answer: they may be written yet.
    lost: Vec<TaskId>,
    firing: Option<Firing>,
    /// The task that it runs again, where it does.
    again: Option<Plan>,
    /// The row of a disabled type that says that this is its probe.
    probe: Option<TypeRow>,
}

impl UploadSession {
    /// Starts to receive a request.
    ///
    /// # Errors
    /// When its idempotency key is in use, its type is disabled, too many tasks of it wait, or the store
    /// does not answer.
    pub fn begin<'a>(
        engine: &'a Engine,
        task_type: TaskType,
        submission: Submission,
    ) -> BoxFuture<'a, Result<Self, SubmitError>> {
        let max_waiting = engine.settings.max_waiting;
        Box::pin(Self::start(engine, task_type, submission, max_waiting))
    }

    /// The same for the firing of a schedule, however many tasks wait.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub(crate) fn of_schedule<'a>(
        engine: &'a Engine,
        task_type: TaskType,
        submission: Submission,
    ) -> BoxFuture<'a, Result<Self, SubmitError>> {
        Box::pin(Self::start(engine, task_type, submission, None))
    }

    async fn start(
        engine: &Engine,
        task_type: TaskType,
        submission: Submission,
        max_waiting: Option<u32>,
    ) -> Result<Self, SubmitError> {
        let replay = idempotency::look(engine, &submission).await?;
        let mut session = Self {
            id: engine.new_task_id(),
            engine: engine.clone(),
            task_type,
            submission,
            fields: Fields::default(),
            whole: None,
            files: BTreeMap::new(),
            received: BTreeMap::new(),
            keys: BTreeSet::new(),
            replay,
            begun: false,
            lost: Vec::new(),
            firing: None,
            again: None,
            probe: None,
        };
        if session.replay.is_none() {
            match session.accept(Arrival::Begins { max_waiting }).await {
                Ok(Admitted::New(_)) => {}
                Ok(Admitted::Repeats(first)) => session.replay = Some(first),
                Err(refusal) => {
                    session.abandon("it is not accepted").await;
                    return Err(refusal);
                }
            }
        }
        Ok(session)
    }

    /// A schedule submits it.
    pub fn fires(&mut self, firing: Firing) {
        self.firing = Some(firing);
    }

    /// The whole request as JSON: an object, or what the request type is instead.
    ///
    /// # Errors
    /// When it is no such request.
    pub fn body(&mut self, body: Value) -> Result<(), SubmitError> {
        match body {
            Value::Object(fields) => self.fields.values = fields,
            // A struct can be read from an array as well, by the order of its fields: no client
            // means that.
            other if (self.task_type.read_request)(other.clone())?.is_object() => {
                return Err(
                    invalid(".", "expected a JSON object, the request's fields by name").into(),
                );
            }
            other => self.whole = Some(other),
        }
        Ok(())
    }

    /// A field of a form that is no file.
    ///
    /// # Errors
    /// When it was there before.
    pub fn field(&mut self, name: &str, value: Value) -> Result<(), SubmitError> {
        let is_new = self.fields.value(name, value);
        self.once(name, is_new)
    }

    /// A field of a form that is a text: it becomes a number, a flag or null where the request's
    /// type wants one.
    ///
    /// # Errors
    /// When it was there before.
    pub fn text(&mut self, name: &str, text: String) -> Result<(), SubmitError> {
        let is_new = self.fields.text(name, text);
        self.once(name, is_new)
    }

    fn once(&self, name: &str, is_new: bool) -> Result<(), SubmitError> {
        if self.files.contains_key(name) {
            return Err(both(name));
        }
        if is_new {
            Ok(())
        } else {
            Err(invalid(
                name,
                "the form has this field twice; only files may be repeated",
            )
            .into())
        }
    }

    /// Whether the request's type takes a file in this field: a page can send a typed value only as
    /// a part that has a file name. `true` as well where something else is wrong, which the file
    /// itself then meets.
    pub fn takes_file(&mut self, field: &str, name: &FileName, content_type: &str) -> bool {
        match self.place_of(&arriving(field, name.clone(), content_type)) {
            Err(SubmitError::Invalid(error)) => {
                error.pointer.split(['.', '[']).next() != Some(field)
            }
            Ok(_) | Err(_) => true,
        }
    }

    /// A file of a form: streams it to its place.
    ///
    /// # Errors
    /// When no upload step takes it, its bytes break off, or a store does not answer.
    pub fn file<'a>(
        &'a mut self,
        field: &'a str,
        name: FileName,
        content_type: &'a str,
        body: ByteStream,
    ) -> BoxFuture<'a, Result<(), SubmitError>> {
        Box::pin(async move {
            let mut file = arriving(field, name, content_type);
            if self.fields.values.contains_key(field) {
                return Err(both(field));
            }
            let (at, bucket) = self.place_of(&file)?;
            // The first file claims the key, and may only then find it used.
            let n = if self.replay.is_none() {
                self.open(at).await?
            } else {
                None
            };
            if let Some(n) = n {
                let key = keys::object_key(&self.prefix(at), n);
                let (body, digest) = measured(body);
                file.size_bytes = self
                    .engine
                    .ports
                    .objects
                    .put(&bucket, &key, body)
                    .await
                    .map_err(from_objects)?;
                file.sha256 = digest.finish();
                self.keys.insert(key.clone());
                (file.bucket, file.key) = (bucket, key);
            } else {
                let (mut body, digest) = measured(body);
                while let Some(chunk) = futures::StreamExt::next(&mut body).await {
                    chunk.map_err(|error| SubmitError::Source(error.to_string()))?;
                }
                file.size_bytes = digest.size_bytes();
                file.sha256 = digest.finish();
                file.bucket = bucket;
            }
            self.files.entry(field.to_owned()).or_default().push(file);
            Ok(())
        })
    }

    fn sent_files(&self) -> Map<String, Value> {
        self.files
            .iter()
            .map(|(field, files)| (field.clone(), json!(files)))
            .collect()
    }

    /// The whole request as it was sent.
    fn sent(&self) -> Value {
        match &self.whole {
            Some(whole) => whole.clone(),
            None => {
                let mut sent = self.fields.sent();
                sent.extend(self.sent_files());
                Value::Object(sent)
            }
        }
    }

    /// The step that takes an arriving file, and its bucket: asked of the declaration, with the
    /// text fields so far. Of the files that came before it takes one a field along, so that a
    /// thousand files are not read a thousand times.
    fn place_of(&mut self, file: &UploadedFile) -> Result<(usize, String), SubmitError> {
        let field = &file.field;
        let mut files: Map<_, _> = self
            .files
            .iter()
            .map(|(field, files)| (field.clone(), json!(files.get(..1))))
            .collect();
        files.insert(field.clone(), json!([file]));
        let request = self.read_partly(files, file)?;
        let uploads = request_uploads(&self.engine, &self.task_type, &request)
            .map_err(|error| self.of_declaration(error))?;
        for (at, upload) in uploads {
            for (source, _) in &upload.sources {
                // The one that has no key yet is the one that is arriving.
                if matches!(source, FileSource::Request(file) if file.field == *field && file.key.is_empty())
                {
                    keys::check_bucket_name(&upload.bucket).map_err(SubmitError::Declaration)?;
                    return Ok((at, upload.bucket));
                }
            }
        }
        Err(invalid(
            field,
            "no upload step of this task type takes a file in this field",
        )
        .into())
    }

    /// The field from which an upload step without files takes them; empty where it may be one of several. A file is
    /// tried in each.
    fn field_of(&mut self, at: usize, request: &Value) -> String {
        let Ok(name) = FileName::parse("file") else {
            return String::new();
        };
        let names = request.as_object().into_iter().flat_map(Map::keys);
        let takes = |field: &&String| {
            let file = arriving(field, name.clone(), "application/octet-stream");
            self.place_of(&file).is_ok_and(|(place, _)| place == at)
        };
        let fields: Vec<_> = names.filter(takes).collect();
        match fields[..] {
            [field] => field.clone(),
            _ => String::new(),
        }
    }

    /// Checks a request of which more is still to come. A field that is missing may be a file that
    /// comes later, so it is tried with one in its place.
    fn read_partly(
        &mut self,
        mut files: Map<String, Value>,
        file: &UploadedFile,
    ) -> Result<Value, SubmitError> {
        let mut tried = BTreeSet::new();
        loop {
            let error = match self.fields.read(self.task_type.read_request, &files) {
                Ok(request) => return Ok(request),
                Err(error) => error,
            };
            match error.missing {
                Some(field) if tried.insert(field) => {
                    // Its key is not empty, or it would look like the one that is arriving.
                    let later = UploadedFile {
                        field: field.to_owned(),
                        key: "later".to_owned(),
                        ..file.clone()
                    };
                    files.insert(field.to_owned(), json!([later]));
                }
                _ if tried.is_empty() => return Err(error.into()),
                _ => {
                    let message = format!(
                        "{}; send a form's text fields before its files",
                        error.message
                    );
                    return Err(RequestError { message, ..error }.into());
                }
            }
        }
    }

    fn prefix(&self, at: usize) -> String {
        let step = self.task_type.decl.steps[at].name;
        keys::attempt_prefix(&self.submission.tenant, self.id, step, Epoch(0), Attempt(1))
    }

    /// The number of a file among those of its step. Commits the receive before the first file of
    /// the request; `None`: the key turned out to be used, so this request repeats another one.
    async fn open(&mut self, at: usize) -> Result<Option<u32>, SubmitError> {
        if self.received.is_empty() && !self.begin_receive().await? {
            return Ok(None);
        }
        let count = self.received.entry(at).or_default();
        *count += 1;
        Ok(Some(*count - 1))
    }

    pub(super) const fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(super) const fn submission(&self) -> &Submission {
        &self.submission
    }

    /// The id that the task will have, unless it repeats a request that came before; it may change with the first file.
    #[must_use]
    pub const fn task_id(&self) -> TaskId {
        self.id
    }
}
