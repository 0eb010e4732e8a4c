//! A row of the journal with its payloads encrypted. Must not decide what a payload is encrypted with.

use super::SUBMITTED;
use super::body::{AttemptBody, Body, Data};
use super::plaintext::handed_in;
use super::write::bind;
use crate::change::transition::Written;
use crate::payloads::{Encrypt, Place};
use crate::ports::PayloadError;
use crate::record::TaskRow;
use counterstep_contracts::ChangeId;

impl Written {
    /// The same row, with all that clients, steps and operators handed in encrypted, and bound anew. `row`:
    /// the task's row that the change writes.
    pub(crate) fn encrypted(
        &self,
        row: &TaskRow,
        change_id: ChangeId,
        encrypt: &Encrypt<'_>,
    ) -> Result<Self, PayloadError> {
        let unreadable = |error: serde_json::Error| {
            PayloadError::Damaged(format!("the row of a change is no journal row: {error}"))
        };
        let mut body: Body = serde_json::from_str(&self.entries).map_err(unreadable)?;
        let data = self.data.as_deref().map(serde_json::from_str::<Data>);
        let mut data = data.transpose().map_err(unreadable)?.unwrap_or_default();
        entries(&mut body, encrypt)?;
        handed_in(&mut data).try_for_each(|(place, value)| encrypt.value(place, value))?;
        // Without one nothing is encrypted: a row with payloads has failed by now.
        body.key = encrypt.key();
        let before = self.before.clone();
        Ok(Self {
            is_encrypted: true,
            ..bind(&self.actor, row, change_id, before, body, &data)
        })
    }
}

fn entries(body: &mut Body, encrypt: &Encrypt<'_>) -> Result<(), PayloadError> {
    for event in &mut body.events {
        // Those of the submission are labels, and what has submitted the task.
        if event.event != SUBMITTED && !event.details.is_null() {
            encrypt.value(Place::Details, &mut event.details)?;
        }
    }
    for attempt in &mut body.attempts {
        if let AttemptBody::End {
            error: Some(error), ..
        } = attempt
        {
            encrypt.text(Place::Error, &mut error.message)?;
        }
    }
    if let Some(Some(failure)) = &mut body.task.failure {
        failure
            .messages_mut()
            .try_for_each(|text| encrypt.text(Place::Error, text))?;
    }
    for step in &mut body.steps {
        if let Some(Some(error)) = &mut step.patch.error {
            encrypt.text(Place::Error, &mut error.message)?;
        }
    }
    Ok(())
}
