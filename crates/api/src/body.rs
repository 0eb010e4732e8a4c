//! The bytes of a request's body on their way in, under the limits on time. Must not know what they
//! mean.

use crate::app_state::Api;
use crate::problem::{malformed, slow, too_large};
use actix_web::error::PayloadError;
use actix_web::web;
use bytes::{Bytes, BytesMut};
use counterstep_operations::Refused;
use futures::StreamExt;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// A body that is arriving.
pub(crate) struct Arriving {
    payload: web::Payload,
    silence: Duration,
    deadline: Instant,
}

impl Arriving {
    /// From now on.
    pub(crate) fn new(api: &Api, payload: web::Payload) -> Self {
        Self::within(
            payload,
            api.settings.body_silence,
            api.engine.settings.upload_timeout,
        )
    }

    /// From now on, with these limits.
    pub(crate) fn within(payload: web::Payload, silence: Duration, whole: Duration) -> Self {
        Self {
            payload,
            silence,
            deadline: Instant::now() + whole,
        }
    }

    /// How long the rest may take.
    pub(crate) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// The next bytes; `None` after the last.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Refused> {
        let left = self.left();
        match timeout(self.silence.min(left), self.payload.next()).await {
            Ok(None) => Ok(None),
            Ok(Some(Ok(bytes))) => Ok(Some(bytes)),
            Ok(Some(Err(error))) => Err(match error {
                PayloadError::Overflow => too_large("the body is larger than it may be"),
                PayloadError::Incomplete(_) => malformed("the body ended before it was complete"),
                _ => malformed("the body's framing is broken"),
            }),
            Err(_) if left <= self.silence => Err(self.too_long()),
            Err(_) => Err(slow(format!(
                "nothing arrived for {:?}: send the body without such pauses",
                self.silence
            ))),
        }
    }

    /// The refusal of a body that took too long altogether.
    pub(crate) fn too_long(&self) -> Refused {
        slow("the whole body took longer to arrive than a request may: send less at a time")
    }

    /// All of it, where it is not over `limit` bytes.
    pub(crate) async fn whole(
        mut self,
        announced: Option<u64>,
        limit: usize,
    ) -> Result<Bytes, Refused> {
        let over = || {
            too_large(format!(
                "a JSON body may have {limit} bytes: send large content as files of a form"
            ))
        };
        if announced.is_some_and(|length| length > limit as u64) {
            return Err(over());
        }
        let mut body = BytesMut::new();
        while let Some(bytes) = self.next().await? {
            if body.len() + bytes.len() > limit {
                return Err(over());
            }
            body.extend_from_slice(&bytes);
        }
        Ok(body.freeze())
    }
}
