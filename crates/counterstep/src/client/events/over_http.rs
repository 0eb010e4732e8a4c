//! The API's stream of a task, opened again after each cut. Must not judge what it brings.

use super::Event;
use super::lines::{Lines, Message};
use crate::client::PUTS_UP_FOR;
use crate::client::http::{HttpError, OverHttp, within};
use bytes::Bytes;
use counterstep_contracts::http::{AuditEvent, PROGRESS_EVENT};
use counterstep_contracts::{AuditSeq, TaskId, TaskStatus};
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use reqwest::StatusCode;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A stream that brings nothing for this time, not even a comment, is opened again. The API sends one every
/// 15 seconds by default.
const SILENCE: Duration = Duration::from_secs(60);

/// Timeout of the head of an answer.
const HEAD: Duration = Duration::from_secs(8);

/// Pause between two attempts to open a stream.
const PAUSE: Duration = Duration::from_millis(500);

type Body = BoxStream<'static, reqwest::Result<Bytes>>;

/// A stream of the API, and where it goes on after a cut.
struct Followed {
    http: OverHttp,
    task: TaskId,
    last: AuditSeq,
    status: Option<TaskStatus>,
    body: Option<Body>,
    lines: Lines,
    ready: VecDeque<Event>,
    failing_since: Option<Instant>,
    has_ended: bool,
}

impl OverHttp {
    /// The events of a task behind an entry. What does not answer for less than a minute does not end
    /// them.
    pub(crate) fn events(
        &self,
        task: TaskId,
        after: AuditSeq,
    ) -> impl Stream<Item = Result<Event, HttpError>> + Send + 'static {
        let followed = Followed {
            http: self.clone(),
            task,
            last: after,
            status: None,
            body: None,
            lines: Lines::default(),
            ready: VecDeque::new(),
            failing_since: None,
            has_ended: false,
        };
        stream::unfold(followed, |mut followed| async move {
            let next = followed.next().await.transpose()?;
            followed.has_ended |= next.is_err();
            Some((next, followed))
        })
        // What has ended may be asked again.
        .fuse()
    }
}

impl Followed {
    async fn next(&mut self) -> Result<Option<Event>, HttpError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            if self.has_ended {
                return Ok(None);
            }
            match self.read().await {
                Ok(()) => {}
                Err(error) if error.may_pass() => {
                    self.body = None;
                    let since = *self.failing_since.get_or_insert_with(Instant::now);
                    if since.elapsed() >= PUTS_UP_FOR {
                        return Err(error);
                    }
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads on, from a new answer where there is none.
    async fn read(&mut self) -> Result<(), HttpError> {
        let Some(body) = &mut self.body else {
            return self.open().await;
        };
        match within(SILENCE, body.next()).await? {
            Some(chunk) => {
                let chunk = chunk.map_err(|error| HttpError::unreachable(&error))?;
                self.failing_since = None;
                for message in self.lines.push(&chunk) {
                    self.take(message)?;
                }
            }
            None => {
                self.body = None;
                self.has_ended = self.status.is_some_and(TaskStatus::is_terminal);
                if !self.has_ended {
                    // The server stops, or a proxy does not keep an answer open for longer.
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        Ok(())
    }

    async fn open(&mut self) -> Result<(), HttpError> {
        let url = format!("{}/api/tasks/{}/events", self.http.base, self.task);
        let mut request = self.http.client.get(url);
        if self.last > AuditSeq(0) {
            request = request.header("last-event-id", self.last.0);
        }
        let answer = within(HEAD, self.http.answer(request)).await??;
        self.failing_since = None;
        if answer.status() == StatusCode::NO_CONTENT {
            self.has_ended = true;
        } else {
            self.lines = Lines::default();
            self.body = Some(answer.bytes_stream().boxed());
        }
        Ok(())
    }

    fn take(&mut self, message: Message) -> Result<(), HttpError> {
        let unreadable = |error: serde_json::Error| HttpError::Unreadable(error.to_string());
        match message.event.as_str() {
            "" => {
                let event: AuditEvent = serde_json::from_str(&message.data).map_err(unreadable)?;
                if event.entry.seq > self.last {
                    self.last = event.entry.seq;
                    self.status = Some(event.status);
                    self.ready.push_back(Event::Audit(Box::new(event)));
                }
            }
            PROGRESS_EVENT => {
                let progress = serde_json::from_str(&message.data).map_err(unreadable)?;
                self.ready.push_back(Event::Progress(progress));
            }
            // Of a newer version.
            _ => {}
        }
        Ok(())
    }
}
