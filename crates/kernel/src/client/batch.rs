//! Many submissions of one task type in one commit. Each is checked, refused or found to be a
//! repetition by itself; what is left is written together. Must not know how stores write many.

use super::idempotency;
use super::prepared::{Preparation, Prepared};
use super::submission::{Submission, SubmitError, Submitted, from_commit, invalid, replayed};
use crate::change::queue_wait::QueueWait;
use crate::engine::Engine;
use crate::ports::{CommitError, StoreError};
use crate::retry_decision::INLINE_LIMIT;
use crate::task::TaskType;
use crate::webhooks::WebhookUrl;
use counterstep_contracts::Labels;
use futures::future::BoxFuture;
use futures::{StreamExt, stream};
use serde_json::Value;
use std::collections::HashMap;

/// Requests that are checked at a time: some of them ask the store for their key.
const CHECKED_AT_ONCE: usize = 16;

/// Maximum tries after a concurrent request took a key; the key is looked up and left out each time.
const TRIES: u32 = 3;

/// A request of a batch.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchItem {
    /// Its idempotency key.
    pub key: Option<String>,
    /// Its labels.
    pub labels: Labels,
    /// Where its webhook goes.
    pub webhook: Option<WebhookUrl>,
    /// The request, without files.
    pub body: Value,
}

/// What is known of a request.
enum Place {
    Settled(Result<Submitted, SubmitError>),
    Pending(Box<Prepared>),
    /// It repeats the one at this place.
    Repeats(usize),
}

/// Submits requests that are one JSON value each. Gives the outcome of each, in order: one that is
/// refused keeps no other from being accepted. All that are accepted are written by one commit, but for those
/// with a webhook whose task completes at once.
/// Pure steps at the head of the declaration share a second. Key, labels and webhook are those of each request,
/// and not those of `by`.
///
/// # Errors
/// [`SubmitError::Invalid`] where the type takes files. [`SubmitError::Store`] where the store does not answer: nothing is known of any of them then, and
/// the same requests with the same keys tell.
pub fn submit_all(
    engine: &Engine,
    task_type: TaskType,
    by: Submission,
    items: Vec<BatchItem>,
) -> BoxFuture<'_, Result<Vec<Result<Submitted, SubmitError>>, SubmitError>> {
    Box::pin(async move {
        if task_type.begins_with_uploads() {
            let message = "this type takes files and has no batches: submit each request as a form of its own";
            return Err(invalid("", message).into());
        }
        let until = engine.ports.clock.monotonic() + INLINE_LIMIT;
        let prepare = |BatchItem {
                           key,
                           labels,
                           webhook,
                           body,
                       }| {
            let submission = Submission {
                key,
                labels,
                webhook,
                ..by.clone()
            };
            Preparation::until(engine, task_type, submission, body, until)
        };
        let prepared: Vec<_> = items.into_iter().map(prepare).collect();
        let prepared: Vec<_> = stream::iter(prepared)
            .buffered(CHECKED_AT_ONCE)
            .collect()
            .await;
        let mut batch = Batch::of(engine, prepared).await;
        match batch.write().await {
            Ok(()) => Ok(batch.outcomes()),
            Err(error) => {
                batch.give_up().await;
                Err(error)
            }
        }
    })
}

struct Batch<'a> {
    engine: &'a Engine,
    places: Vec<Place>,
}

impl<'a> Batch<'a> {
    async fn of(engine: &'a Engine, prepared: Vec<Result<Preparation, SubmitError>>) -> Self {
        let mut places = Vec::with_capacity(prepared.len());
        let mut firsts: HashMap<String, usize> = HashMap::new();
        for (at, prepared) in prepared.into_iter().enumerate() {
            let prepared = match prepared {
                Ok(Preparation::New(prepared)) => prepared,
                Ok(Preparation::Replayed(submitted)) => {
                    places.push(Place::Settled(Ok(submitted)));
                    continue;
                }
                Err(error) => {
                    places.push(Place::Settled(Err(error)));
                    continue;
                }
            };
            let key = prepared.submission().key.clone();
            let first = key.as_ref().and_then(|key| firsts.get(key)).copied();
            places.push(match (first.map(|first| &places[first]), first) {
                (Some(Place::Pending(earlier)), Some(first)) => {
                    let is_same = earlier.decided().fingerprint == prepared.decided().fingerprint;
                    prepared.give_up().await;
                    if is_same {
                        Place::Repeats(first)
                    } else {
                        Place::Settled(Err(SubmitError::KeyMismatch))
                    }
                }
                _ if prepared.is_alone() => Place::Settled(prepared.commit().await),
                _ => {
                    firsts.extend(key.map(|key| (key, at)));
                    Place::Pending(prepared)
                }
            });
        }
        Self { engine, places }
    }

    /// In the order of their keys: two batches that take the same ones do not lock each other out.
    fn pending(&self) -> Vec<&Prepared> {
        let mut pending: Vec<&Prepared> = self
            .places
            .iter()
            .filter_map(|place| match place {
                Place::Pending(prepared) => Some(&**prepared),
                Place::Settled(_) | Place::Repeats(_) => None,
            })
            .collect();
        pending.sort_by_key(|prepared| &prepared.submission().key);
        pending
    }

    /// Writes all that are pending; settles those whose key is another's.
    async fn write(&mut self) -> Result<(), SubmitError> {
        for place in &self.places {
            if let Place::Settled(Err(SubmitError::Store(error))) = place
                && error.may_pass()
            {
                return Err(SubmitError::Store(error.clone()));
            }
        }
        let mut tries = 0;
        loop {
            let pending = self.pending();
            let changes: Vec<_> = pending
                .iter()
                .map(|it| it.decided().transition.clone())
                .collect();
            let Err(error) = self.engine.commit_new(&changes, QueueWait::Brief).await else {
                return Ok(());
            };
            if !matches!(error, CommitError::KeyTaken) {
                return Err(from_commit(error));
            }
            tries += 1;
            self.settle_taken(tries >= TRIES).await?;
        }
    }

    /// Settles those whose key another request has by now; `at_last`: all that have a key.
    async fn settle_taken(&mut self, at_last: bool) -> Result<(), StoreError> {
        for place in &mut self.places {
            let Place::Pending(prepared) = place else {
                continue;
            };
            if prepared.submission().key.is_none() {
                continue;
            }
            let read = idempotency::read(self.engine, prepared.submission()).await;
            let outcome = match read {
                Ok(Some((first, answer))) if first == prepared.decided().fingerprint => {
                    replayed(&answer)
                }
                Ok(Some(_)) => Err(SubmitError::KeyMismatch),
                Ok(None) if at_last => Err(SubmitError::InProgress),
                Ok(None) => continue,
                Err(SubmitError::Store(error)) if error.may_pass() => return Err(error),
                Err(error) => Err(error),
            };
            let before = std::mem::replace(place, Place::Settled(outcome));
            if let Place::Pending(prepared) = before {
                prepared.give_up().await;
            }
        }
        Ok(())
    }

    /// The outcome of each, once what is pending is committed.
    fn outcomes(self) -> Vec<Result<Submitted, SubmitError>> {
        let mut outcomes: Vec<Result<Submitted, SubmitError>> =
            Vec::with_capacity(self.places.len());
        for place in self.places {
            let outcome = match place {
                Place::Settled(outcome) => outcome,
                Place::Pending(prepared) => Ok(Submitted {
                    answer: prepared.decided().answer.clone(),
                    replayed: false,
                }),
                // The first one stands before it.
                Place::Repeats(first) => match &outcomes[first] {
                    Ok(submitted) => Ok(Submitted {
                        answer: submitted.answer.clone(),
                        replayed: true,
                    }),
                    Err(SubmitError::KeyMismatch) => Err(SubmitError::KeyMismatch),
                    Err(_) => Err(SubmitError::InProgress),
                },
            };
            outcomes.push(outcome);
        }
        outcomes
    }

    async fn give_up(self) {
        for place in self.places {
            if let Place::Pending(prepared) = place {
                prepared.give_up().await;
            }
        }
    }
}
