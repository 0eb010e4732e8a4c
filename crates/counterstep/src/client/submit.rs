//! What a submission comes with beside its request: key, labels, webhook. Must not submit.

use counterstep_contracts::{LabelError, Labels};
use std::fmt;

/// What a submission comes with beside its request.
#[derive(Debug, Clone)]
pub struct Submit {
    pub(super) key: Option<String>,
    pub(super) labels: Result<Labels, LabelError>,
    pub(super) webhook: Option<String>,
}

impl Default for Submit {
    fn default() -> Self {
        Self {
            key: None,
            labels: Ok(Labels::new()),
            webhook: None,
        }
    }
}

impl Submit {
    /// Without an option.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An idempotency key, as [`Client::submit_once`](super::Client::submit_once) takes it.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// A label, by which the task is found: at most 16, each name once, 1 to 64 of `a-z 0-9 _ . -`, and
    /// up to 256 bytes of one line of text. They never change: a repetition with the same key leaves
    /// those of the first submission.
    #[must_use]
    pub fn label(mut self, name: &str, value: impl fmt::Display) -> Self {
        if let Ok(labels) = &mut self.labels
            && let Err(error) = labels.add(name, &value.to_string())
        {
            self.labels = Err(error);
        }
        self
    }

    /// Sends a webhook to this address when the task comes to rest: an `https` address of the public internet
    /// at port 443, or one that the operator allows. Over HTTP it is refused where the API sends no webhooks; in
    /// the process of an engine they are sent by the API that serves it.
    #[must_use]
    pub fn webhook(mut self, url: &str) -> Self {
        self.webhook = Some(url.to_owned());
        self
    }
}

/// A key and labels that have been checked.
#[derive(Debug, Default)]
pub(crate) struct Options {
    pub(crate) key: Option<String>,
    pub(crate) labels: Labels,
    /// Not checked: its rules are the settings' of whom it is submitted to.
    pub(crate) webhook: Option<String>,
}
