//! What happens to a task, as it happens: the API's stream of it, joined again after each cut, or the
//! journal itself where the engine is in this process. Must not interpret an entry.

mod in_process;
mod lines;
mod over_http;

use super::{ClientError, Handle, Way};
use counterstep_contracts::AuditSeq;
use counterstep_contracts::http::{AuditEvent, ProgressEvent};
use counterstep_steps::DistributedTask;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Something that happened to a task, or a hint.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// An entry of the audit: each one once, in order.
    Audit(Box<AuditEvent>),
    /// How far running steps say they are. It may be late, or missing.
    Progress(ProgressEvent),
}

/// The events of a task, until it has ended. Also a [`Stream`] of them.
pub struct Events(BoxStream<'static, Result<Event, ClientError>>);

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Events")
    }
}

impl Stream for Events {
    type Item = Result<Event, ClientError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(cx)
    }
}

impl Events {
    /// The next one; `None`: the task has ended, and that was all.
    ///
    /// # Errors
    /// [`ClientError`]; it is the last then.
    pub async fn next(&mut self) -> Option<Result<Event, ClientError>> {
        self.0.next().await
    }

    /// The same after `checked`, where that is no error.
    pub(super) fn of(
        checked: impl Future<Output = Result<(), ClientError>> + Send + 'static,
        events: impl Stream<Item = Result<Event, ClientError>> + Send + 'static,
    ) -> Self {
        let mut events = Some(events);
        let checked = stream::once(checked).flat_map(move |checked| match checked {
            Ok(()) => stream::iter(events.take()).flatten().boxed(),
            Err(error) => stream::once(std::future::ready(Err(error))).boxed(),
        });
        Self(checked.boxed())
    }
}

impl<T: DistributedTask> Handle<T> {
    /// What has happened to it and what happens, each entry of its audit once and in order, until it has
    /// ended, with the progress of running steps in between. A task that waits for a person has not.
    /// What does not answer for less than a minute does not end it. Nothing is asked before the first
    /// [`next`](Events::next).
    #[must_use]
    pub fn events(&self) -> Events {
        self.events_after(AuditSeq(0))
    }

    /// The same without the entries up to this one.
    #[must_use]
    pub fn events_after(&self, seq: AuditSeq) -> Events {
        let (handle, task) = (self.clone(), self.task);
        let checked = async move { handle.until(false, |_| true).await.map(drop) };
        match &self.client.0 {
            Way::InProcess(here) => Events::of(checked, here.events(task, seq)),
            Way::Http(http) => {
                let events = http.events(task, seq);
                Events::of(checked, events.map(|event| event.map_err(Into::into)))
            }
        }
    }
}
