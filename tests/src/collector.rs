//! A collector of OpenTelemetry on loopback: takes `POST /v1/traces` as any other does, and keeps the
//! spans. It can be told to be away.

use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, Span};
use parking_lot::{Mutex, MutexGuard};
use prost::Message;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// A span as it arrived.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Of the process: its `service.name`.
    pub service: String,
    /// Its name.
    pub name: String,
    /// What it is at the border of a process.
    pub kind: SpanKind,
    /// 32 hexadecimal digits.
    pub trace: String,
    /// 16 hexadecimal digits.
    pub id: String,
    /// Empty: it is the first of its trace.
    pub parent: String,
    /// Whether it says that something failed.
    pub failed: bool,
    /// In nanoseconds.
    pub started: u64,
    /// In nanoseconds.
    pub ended: u64,
    /// As texts.
    pub attributes: BTreeMap<String, String>,
    /// With their attributes.
    pub events: Vec<(String, BTreeMap<String, String>)>,
}

impl Seen {
    /// An attribute; empty where there is none.
    #[must_use]
    pub fn of(&self, attribute: &str) -> &str {
        self.attributes.get(attribute).map_or("", String::as_str)
    }
}

#[derive(Debug, Default)]
struct Kept {
    spans: Vec<Seen>,
    bodies: Vec<Vec<u8>>,
    authorized: Vec<Option<String>>,
    /// What it answers in the place of 200.
    status: Option<u16>,
    refused: usize,
}

/// Listens until it is dropped with its process.
#[derive(Debug, Clone)]
pub struct TraceCollector {
    address: SocketAddr,
    kept: Arc<Mutex<Kept>>,
}

impl TraceCollector {
    /// On a free port.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = listener.local_addr().expect("its address");
        let kept = Arc::<Mutex<Kept>>::default();
        let shared = kept.clone();
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let kept = shared.clone();
                thread::spawn(move || serve(&connection, &kept));
            }
        });
        Self { address, kept }
    }

    /// For the setting `otlp_endpoint`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Answers this from now on; `None`: takes spans.
    pub fn answer(&self, status: Option<u16>) {
        lock(&self.kept).status = status;
    }

    /// All spans so far.
    #[must_use]
    pub fn spans(&self) -> Vec<Seen> {
        lock(&self.kept).spans.clone()
    }

    /// Those of a trace.
    #[must_use]
    pub fn trace(&self, trace: &str) -> Vec<Seen> {
        let mut spans = self.spans();
        spans.retain(|span| span.trace == trace);
        spans
    }

    /// The requests that were taken, as they came.
    #[must_use]
    pub fn bodies(&self) -> Vec<Vec<u8>> {
        lock(&self.kept).bodies.clone()
    }

    /// The `Authorization` of each request that was taken.
    #[must_use]
    pub fn authorized(&self) -> Vec<Option<String>> {
        lock(&self.kept).authorized.clone()
    }

    /// Requests that it was told not to take.
    #[must_use]
    pub fn refused(&self) -> usize {
        lock(&self.kept).refused
    }
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock()
}

/// Requests of one connection, until the client closes it.
fn serve(connection: &TcpStream, kept: &Mutex<Kept>) {
    let mut reader = BufReader::new(connection);
    while let Some((head, body)) = request(&mut reader) {
        let (status, answer) = take(&head, &body, kept);
        let answer = answer.encode_to_vec();
        let mut response = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/x-protobuf\r\ncontent-length: {}\r\n\r\n",
            answer.len()
        )
        .into_bytes();
        response.extend(answer);
        let mut writer = connection;
        if writer.write_all(&response).is_err() {
            return;
        }
    }
}

/// The lines of a head, and the body.
fn request(reader: &mut impl BufRead) -> Option<(Vec<String>, Vec<u8>)> {
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => head.push(line.to_owned()),
        }
    }
    let length = header(&head, "content-length")?.parse().ok()?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head, body))
}

fn header(head: &[String], name: &str) -> Option<String> {
    let mut pairs = head.iter().filter_map(|line| line.split_once(':'));
    let (_, value) = pairs.find(|(key, _)| key.eq_ignore_ascii_case(name))?;
    Some(value.trim().to_owned())
}

fn take(head: &[String], body: &[u8], kept: &Mutex<Kept>) -> (u16, ExportTraceServiceResponse) {
    let is_export = head[0].starts_with("POST /v1/traces ")
        && header(head, "content-type").as_deref() == Some("application/x-protobuf");
    let mut kept = lock(kept);
    let status = match ExportTraceServiceRequest::decode(body) {
        _ if !is_export => 404,
        Err(_) => 400,
        Ok(_) if kept.status.is_some() => {
            kept.refused += 1;
            kept.status.unwrap_or_default()
        }
        Ok(request) => {
            kept.spans
                .extend(request.resource_spans.iter().flat_map(seen));
            kept.bodies.push(body.to_owned());
            kept.authorized.push(header(head, "authorization"));
            200
        }
    };
    (status, ExportTraceServiceResponse::default())
}

fn seen(of: &ResourceSpans) -> Vec<Seen> {
    let resource = of.resource.as_ref().map(|it| texts(&it.attributes));
    let service = resource.and_then(|mut it| it.remove("service.name"));
    let service = service.unwrap_or_default();
    let spans = of.scope_spans.iter().flat_map(|scope| &scope.spans);
    let one = |span: &Span| Seen {
        service: service.clone(),
        name: span.name.clone(),
        kind: span.kind(),
        trace: hex(&span.trace_id),
        id: hex(&span.span_id),
        parent: hex(&span.parent_span_id),
        failed: span
            .status
            .as_ref()
            .is_some_and(|it| it.code() == StatusCode::Error),
        started: span.start_time_unix_nano,
        ended: span.end_time_unix_nano,
        attributes: texts(&span.attributes),
        events: span
            .events
            .iter()
            .map(|event| (event.name.clone(), texts(&event.attributes)))
            .collect(),
    };
    spans.map(one).collect()
}

fn texts(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |pair: &KeyValue| {
        let value = match pair.value.as_ref().and_then(|it| it.value.as_ref()) {
            Some(any_value::Value::StringValue(text)) => text.clone(),
            Some(any_value::Value::IntValue(number)) => number.to_string(),
            Some(any_value::Value::BoolValue(value)) => value.to_string(),
            other => format!("{other:?}"),
        };
        (pair.key.clone(), value)
    };
    attributes.iter().map(text).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
