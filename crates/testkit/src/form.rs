//! Requests as a client would send them, and its answers while their tasks wait.

use crate::answers::Answer;
use counterstep_contracts::{FileName, Labels, TaskId, Tenant};
use counterstep_kernel::Engine;
use counterstep_kernel::client::{self, Submission, SubmitError, UploadSession};
use counterstep_steps::{DistributedTask, Registry, TaskType};
use futures::{FutureExt, StreamExt};
use serde_json::Value;
use std::fmt::Display;

/// A form: text fields, then files.
#[derive(Debug, Clone, Default)]
pub struct Form {
    pub(crate) fields: Vec<(String, Value)>,
    pub(crate) files: Vec<(String, String, Vec<u8>)>,
    pub(crate) answers: Vec<(String, Answer)>,
    to: Option<&'static str>,
    tenant: Tenant,
    key: Option<String>,
    traceparent: Option<String>,
    labels: Labels,
}

impl Form {
    /// With nothing in it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// For this task type, of a registry that may have several; its newest version.
    #[must_use]
    pub fn to<T: DistributedTask>() -> Self {
        Self {
            to: Some(T::task_type().decl.name),
            ..Self::default()
        }
    }

    /// The type that it is for: the one that it names, else the registry's first by name.
    ///
    /// # Panics
    /// When there is no such type.
    pub(crate) fn task_type(&self, registry: &Registry) -> TaskType {
        match self.to {
            Some(name) => registry
                .newest(name)
                .unwrap_or_else(|| panic!("the registry has no type `{name}`")),
            None => *registry.iter().next().expect("a task type"),
        }
    }

    /// With a field.
    #[must_use]
    pub fn field(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.fields.push((name.to_owned(), value.into()));
        self
    }

    /// With a file.
    #[must_use]
    pub fn file(mut self, field: &str, name: &str, bytes: impl Into<Vec<u8>>) -> Self {
        self.files
            .push((field.to_owned(), name.to_owned(), bytes.into()));
        self
    }

    /// Of this tenant.
    #[must_use]
    pub fn tenant(mut self, tenant: &str) -> Self {
        self.tenant = Tenant(tenant.to_owned());
        self
    }

    /// With this `Idempotency-Key`.
    #[must_use]
    pub fn key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    /// With this label.
    ///
    /// # Panics
    /// When it is none.
    #[must_use]
    pub fn label(mut self, name: &str, value: &str) -> Self {
        if let Err(error) = self.labels.add(name, value) {
            panic!("{error}");
        }
        self
    }

    /// With this `traceparent`.
    #[must_use]
    pub fn traceparent(mut self, traceparent: &str) -> Self {
        self.traceparent = Some(traceparent.to_owned());
        self
    }

    /// Answers the signal of this step as soon as the task waits for it, or one below it. Of several
    /// tasks with such a step, each takes an answer of its own: the first that waits, the first.
    #[must_use]
    pub fn answer(self, step: &str, body: impl Into<Value>) -> Self {
        self.planned(step, Answer::InTime(body.into()))
    }

    /// Lets the deadline of the signal pass, and sends it then. It has to be refused.
    #[must_use]
    pub fn answer_late(self, step: &str, body: impl Into<Value>) -> Self {
        self.planned(step, Answer::Late(body.into()))
    }

    /// Lets the deadline of the signal pass.
    #[must_use]
    pub fn never_answer(self, step: &str) -> Self {
        self.planned(step, Answer::Never)
    }

    fn planned(mut self, step: &str, answer: Answer) -> Self {
        self.answers.push((step.to_owned(), answer));
        self
    }
}

/// Two small files in the field `files`, both of the same name.
#[must_use]
pub fn two_files() -> Form {
    Form::new()
        .file("files", "note.txt", "the first")
        .file("files", "note.txt", "the second")
}

/// Submits a form to the task type that it names, else to the first of an engine, by name.
///
/// # Panics
/// When it is refused.
pub async fn submit(engine: &Engine, form: Form) -> TaskId {
    let name = form.task_type(&engine.registry).decl.name;
    let of = if form.to.is_none() && engine.registry.iter().nth(1).is_some() {
        format!("{name}, the first type of the registry since the form names none (`Form::to`),")
    } else {
        name.to_owned()
    };
    let submitted = try_submit(engine, form).await;
    accepted(&format!("the request to {of}"), submitted)
}

/// # Panics
/// When it is refused.
#[track_caller]
pub(crate) fn accepted<T, E: Display>(what: &str, result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| panic!("{what} is refused: {error}"))
}

/// The same; whether it was refused.
///
/// # Errors
/// As the end of a submission has them.
pub async fn try_submit(engine: &Engine, form: Form) -> Result<TaskId, SubmitError> {
    let task_type = form.task_type(&engine.registry);
    let submission = Submission {
        tenant: form.tenant,
        actor: "client".to_owned(),
        key: form.key,
        traceparent: form.traceparent,
        webhook: None,
        labels: form.labels,
    };
    let submitted = client::take(engine, task_type, submission, |session| {
        take_in(session, form.fields, form.files).boxed()
    });
    Ok(submitted.await?.answer.task_id)
}

async fn take_in(
    session: &mut UploadSession,
    fields: Vec<(String, Value)>,
    files: Vec<(String, String, Vec<u8>)>,
) -> Result<(), SubmitError> {
    for (name, value) in fields {
        session.field(&name, value)?;
    }
    for (field, name, bytes) in files {
        let name = accepted(&format!("the file name `{name}`"), FileName::parse(&name));
        let body = futures::stream::once(async move { Ok(bytes.into()) }).boxed();
        session.file(&field, name, "text/plain", body).await?;
    }
    Ok(())
}
