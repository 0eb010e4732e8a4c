//! The place of a new task among those of its key. Where its type refuses those beyond its number, the submission
//! itself takes the place.

use super::UploadSession;
use crate::admission::places::{allowed, free_numbers, key_of, named};
use crate::client::submission::{SubmitError, TooManyAtOnce};
use crate::ports::{First, PlaceQuery};
use counterstep_contracts::Beyond;
use serde_json::Value;

/// So many of the tasks under way are named in a refusal.
const NAMED: usize = 5;

/// The place of a new task.
#[derive(Debug, Default)]
pub(super) struct Place {
    /// The key by which it is counted; `None`: it is not.
    pub(super) key: Option<String>,
    /// The number that it takes with its submission.
    pub(super) no: Option<u32>,
}

impl UploadSession {
    /// The place of the task that a request is to become.
    pub(super) async fn place(&self, request: &Value) -> Result<Place, SubmitError> {
        let key = key_of(
            &self.engine,
            &self.task_type,
            &self.submission.tenant,
            request,
        )
        .map_err(|error| self.of_declaration(error))?;
        let allowed = allowed(&self.engine, self.task_type.decl.name).await;
        let refuses = allowed.filter(|allowed| allowed.beyond == Beyond::Refuse);
        let (Some(allowed), Some(of)) = (refuses, &key) else {
            return Ok(Place { key, no: None });
        };
        let query = PlaceQuery::Of {
            key: of.clone(),
            first: First::Oldest,
            waiting: 0,
        };
        let rows = self.engine.ports.store.places(&query).await?;
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
