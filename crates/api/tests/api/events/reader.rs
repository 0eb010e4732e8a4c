//! A client of a stream of events: reads what the server sends, event by event.

use crate::site::Site;
use counterstep_contracts::TaskId;
use counterstep_contracts::http::{AuditEvent, AuditView, ProgressEvent};
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a server sends.
#[derive(Debug)]
pub(super) enum Sent {
    Entry(Box<AuditEvent>),
    Progress(ProgressEvent),
    Comment,
}

pub(super) struct Reader(Lines);

/// What a stream sends, as texts without the empty line at the end.
pub(super) struct Lines {
    bytes: BoxStream<'static, Vec<u8>>,
    text: String,
}

impl Lines {
    /// Of an answer that is a stream.
    pub(super) fn of(answer: reqwest::Response) -> Self {
        assert_eq!(answer.status().as_u16(), 200);
        let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
        assert_eq!(header("content-type"), "text/event-stream");
        assert_eq!(header("cache-control"), "no-store");
        assert_eq!(header("x-content-type-options"), "nosniff");
        let bytes = answer
            .bytes_stream()
            .map(|chunk| chunk.expect("no cut").to_vec());
        Self {
            bytes: bytes.boxed(),
            text: String::new(),
        }
    }

    /// The next one; `None`: the stream has ended.
    pub(super) async fn next(&mut self) -> Option<String> {
        loop {
            if let Some((whole, rest)) = self.text.split_once("\n\n") {
                let (whole, rest) = (whole.to_owned(), rest.to_owned());
                self.text = rest;
                return Some(whole);
            }
            let chunk = tokio::time::timeout(PATIENCE, self.bytes.next()).await;
            let Some(chunk) = chunk.expect("something in time") else {
                assert_eq!(self.text, "", "half an event");
                return None;
            };
            self.text.push_str(&String::from_utf8(chunk).expect("text"));
        }
    }
}

impl Reader {
    pub(super) async fn open(site: &Site, task: TaskId, last: Option<&str>) -> Self {
        let opened = Self::reopen(site, task, last).await;
        opened.expect("there is more to come")
    }

    /// `None`: there is nothing behind the last event, and never will be.
    pub(super) async fn reopen(site: &Site, task: TaskId, last: Option<&str>) -> Option<Self> {
        let mut request = site.request("GET", &format!("/api/tasks/{task}/events"));
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let answer = request.send().await.expect("an answer");
        if answer.status().as_u16() == 204 {
            return None;
        }
        Some(Self(Lines::of(answer)))
    }

    /// Over a socket that takes few bytes at a time, and reads none until the first event is asked for.
    pub(super) async fn open_slowly(site: &Site, task: TaskId) -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(4096).expect("a small buffer");
        let mut socket = socket.connect(site.address).await.expect("a connection");
        let head = format!("GET /api/tasks/{task}/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
        socket.write_all(head.as_bytes()).await.expect("it is read");
        let bytes = stream::unfold((socket, false), |(mut socket, in_body)| async move {
            if !in_body {
                let head = until(&mut socket, b"\r\n\r\n").await;
                assert!(head.starts_with("HTTP/1.1 200"), "{head}");
            }
            let size = until(&mut socket, b"\r\n").await;
            let size = usize::from_str_radix(size.trim(), 16).expect("a size");
            let mut chunk = vec![0; size + 2];
            socket.read_exact(&mut chunk).await.expect("no cut");
            chunk.truncate(size);
            (size > 0).then_some((chunk, (socket, true)))
        });
        Self(Lines {
            bytes: bytes.boxed(),
            text: String::new(),
        })
    }

    /// The next thing that is sent; `None`: the stream has ended.
    pub(super) async fn next(&mut self) -> Option<Sent> {
        loop {
            let event = self.0.next().await?;
            if let Some(sent) = read(&event) {
                return Some(sent);
            }
        }
    }

    /// The next audit entry.
    pub(super) async fn entry(&mut self) -> Option<AuditEvent> {
        loop {
            if let Sent::Entry(event) = self.next().await? {
                return Some(*event);
            }
        }
    }

    /// `count` of them.
    pub(super) async fn entries(&mut self, count: usize) -> Vec<AuditView> {
        let mut entries = Vec::new();
        while entries.len() < count {
            entries.push(self.entry().await.expect("more").entry);
        }
        entries
    }
}

async fn until(socket: &mut TcpStream, end: &[u8]) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(end) {
        let byte = tokio::time::timeout(PATIENCE, socket.read_u8()).await;
        bytes.push(byte.expect("something in time").expect("no cut"));
    }
    String::from_utf8(bytes).expect("text")
}

fn read(event: &str) -> Option<Sent> {
    let field = |name: &str| {
        let mut lines = event.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    };
    if event == ":" {
        return Some(Sent::Comment);
    }
    let Some(data) = field("data") else {
        assert_eq!(event, "retry: 1000");
        return None;
    };
    let id = field("id");
    match field("event") {
        None => {
            let event: AuditEvent = serde_json::from_str(data).expect("an entry");
            assert_eq!(id, Some(&*event.entry.seq.0.to_string()));
            Some(Sent::Entry(Box::new(event)))
        }
        Some("progress") => {
            assert_eq!(id, None);
            Some(Sent::Progress(
                serde_json::from_str(data).expect("a progress"),
            ))
        }
        Some(other) => panic!("an event of another kind: {other}"),
    }
}
