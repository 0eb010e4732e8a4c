//! Webhooks: a client that names an address when it submits is told there when the task comes to rest.
//! A webhook is a document, written in the commit that brings the task to rest, so none is lost and none
//! tells of a change that rolled back; API processes send those that are due. Must not know HTTP.

mod address;
pub mod alerts;
pub(crate) mod recent_alerts;
mod send;
mod signature;
mod slots;
mod webhook_document;

pub use address::{AllowedNets, InvalidNet, InvalidUrl, WebhookUrl, is_public};
pub use send::{Webhooks, serve};
pub use signature::{InvalidSecret, WebhookSecrets};
pub use webhook_document::{NoSuchWebhook, list, send_again};

use crate::change::transition::Transition;
use async_trait::async_trait;
use std::fmt::Debug;
use std::time::Duration;
use webhook_document::Delivery;

/// Sends one request to a receiver. It connects to no address that the operator's rules forbid, whatever
/// the receiver's name resolves to, and follows no redirect.
#[async_trait]
pub trait WebhookSender: Debug + Send + Sync {
    /// Posts a JSON body with these headers. The status of the answer, or why there was none.
    async fn post(
        &self,
        url: &str,
        headers: &[(&'static str, String)],
        body: Vec<u8>,
    ) -> Result<u16, NoAnswer>;
}

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// The host did not answer within this time limit.
    #[error("no answer within {} s", .0.as_secs())]
    Hung(Duration),
    /// As text without the address.
    #[error("{0}")]
    Failed(String),
}

/// Adds the webhook of a change that brings its task to rest, where the submission asked for one.
pub(crate) fn add_webhook(transition: &mut Transition) {
    let Some(write) = &transition.task else {
        return;
    };
    let (row, mut entries) = (&write.row, transition.audit.iter());
    let changes_state = entries.any(|it| it.to == row.status && it.from != Some(it.to));
    let Some(url) = row
        .webhook
        .as_ref()
        .filter(|_| row.status.is_at_rest() && changes_state)
    else {
        return;
    };
    match Delivery::of(row, url).new_document(row) {
        Ok(document) => transition.document = Some(Box::new(document)),
        // Its fields are texts and numbers: there is none that has no form as JSON.
        Err(error) => tracing::error!(task = %row.id, %error, "a webhook cannot be written"),
    }
}
