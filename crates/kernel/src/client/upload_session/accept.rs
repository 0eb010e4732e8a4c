//! Whether a submission is accepted: asked before its first byte, and again when it is complete. A repetition of an accepted one
//! keeps its answer, whatever refuses others. Must not write a task.

use super::UploadSession;
use crate::admission::disable::admission;
use crate::admission::places::{allowed, free_numbers, key_of, named};
use crate::client::idempotency;
use crate::client::submission::{SubmitError, TooManyAtOnce};
use crate::ports::{First, PlaceQuery};
use counterstep_contracts::Beyond;
use serde_json::Value;

/// Maximum number of tasks under way that a refusal names.
const NAMED: usize = 5;

/// How far a request has come.
#[derive(Debug, Clone, Copy)]
pub(super) enum Arrival<'a> {
    /// Before its first byte. It is refused where more tasks of its type wait; `None`: however many do.
    Begins { max_waiting: Option<u32> },
    /// It is this one.
    Complete(&'a Value),
}

/// The place of a new task among those of its key.
#[derive(Debug, Default)]
pub(super) struct Place {
    /// The key by which it is counted; `None`: it is not.
    pub(super) key: Option<String>,
    /// The number that it takes with its submission: where its type refuses those beyond its number, the submission itself takes it.
    pub(super) no: Option<u32>,
}

/// A request that is not refused.
#[derive(Debug)]
pub(super) enum Admitted {
    New(Place),
    /// The fingerprint and the answer of the one that it repeats.
    Repeats((String, Value)),
}

impl UploadSession {
    pub(super) async fn accept(&mut self, arrival: Arrival<'_>) -> Result<Admitted, SubmitError> {
        let asked = match arrival {
            Arrival::Begins { max_waiting } => self.begins(max_waiting).await,
            Arrival::Complete(request) => self.is_complete(request).await,
        };
        match asked {
            // A key that was begun is no other request's.
            Err(refusal) if refusal.is_not_accepted() && !self.begun => {
                let first = idempotency::first_or(&self.engine, &self.submission, refusal);
                first.await.map(Admitted::Repeats)
            }
            asked => asked.map(Admitted::New),
        }
    }

    async fn begins(&mut self, max_waiting: Option<u32>) -> Result<Place, SubmitError> {
        self.ask_type().await?;
        if let Some(most) = max_waiting {
            let (tenant, name) = (&self.submission.tenant, self.task_type.decl.name);
            let engine = &self.engine;
            if engine.waiting_with_one_more(tenant, Some(name), most).await > most {
                return Err(SubmitError::TooManyWaiting(most));
            }
        }
        Ok(Place::default())
    }

    async fn is_complete(&mut self, request: &Value) -> Result<Place, SubmitError> {
        // Its files took their time.
        if !self.received.is_empty() {
            self.ask_type().await?;
        }
        self.place(request).await
    }

    /// Whether its type takes it, and whether as the probe of a disabled one.
    async fn ask_type(&mut self) -> Result<(), SubmitError> {
        let probe = self.probe.clone();
        let admitted = admission::admit(&self.engine, &self.task_type, self.id, probe).await?;
        let (probe, refused) = match admitted {
            Ok(probe) => (probe, Ok(())),
            Err(refusal) => (None, Err(SubmitError::Disabled(refusal))),
        };
        self.probe = probe;
        refused
    }

    async fn place(&self, request: &Value) -> Result<Place, SubmitError> {
        let (engine, tenant) = (&self.engine, &self.submission.tenant);
        let key = key_of(engine, &self.task_type, tenant, request)
            .map_err(|error| self.of_declaration(error))?;
        let allowed = allowed(engine, self.task_type.decl.name).await;
        let refuses = allowed.filter(|allowed| allowed.beyond == Beyond::Refuse);
        let (Some(allowed), Some(of)) = (refuses, &key) else {
            return Ok(Place { key, no: None });
        };
        let query = PlaceQuery::Of {
            key: of.clone(),
            first: First::Oldest,
            waiting: 0,
        };
        let rows = engine.ports.store.places(&query).await?;
        let free = free_numbers(&rows, allowed.at_once);
        // Any of them: the lowest one is what others would take at the same time. But while more are held
        // than are allowed, only one may take the next.
        let is_less = rows.iter().any(|row| row.no >= Some(allowed.at_once));
        let at = match is_less {
            true => 0,
            false => self.id.0.as_u128() as usize % free.len().max(1),
        };
        match free.get(at) {
            Some(no) => Ok(Place { key, no: Some(*no) }),
            None => Err(SubmitError::TooManyAtOnce(TooManyAtOnce {
                at_once: allowed.at_once,
                tasks: named(&rows, of, NAMED),
            })),
        }
    }
}
