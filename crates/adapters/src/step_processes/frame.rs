//! What the two sides of a step's process say to each other: frames of a JSON text and bytes beside it,
//! over one socket. Both sides are the same program, so the form may change with any release.
//!
//! Streams are asked for, chunk by chunk, so none is sent that the other side does not wait for.

use bytes::Bytes;
use counterstep_contracts::LogLevel;
use counterstep_kernel::ports::CodePart;
use counterstep_steps::ports::{Method, ObjectError, ServiceAnswer, ServiceError, ServiceRequest};
use counterstep_steps::task::TaskFacts;
use counterstep_steps::{CancelReason, Execution, Sql, StepResult};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Maximum bytes of a frame: outputs are bounded, and chunks are cut.
const LONGEST: u32 = 256 << 20;

/// Maximum bytes of a chunk.
const CHUNK: usize = 256 << 10;

/// The next piece of what is left of a chunk.
pub(super) fn piece(left: &mut Bytes) -> Bytes {
    left.split_to(left.len().min(CHUNK))
}

/// What is to be run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    /// Of this type, version and definition.
    pub(super) task_type: String,
    pub(super) version: u32,
    pub(super) definition: String,
    /// At this place of the declaration.
    pub(super) at: usize,
    pub(super) part: CodePart,
    pub(super) execution: Execution,
    pub(super) facts: TaskFacts,
    pub(super) request: Value,
    pub(super) outputs: BTreeMap<String, Value>,
    pub(super) own_output: Option<Value>,
    pub(super) output_limit: usize,
    pub(super) time_left: Duration,
    /// The folder of scratch files of this host.
    pub(super) scratch: PathBuf,
    /// The files of the task there whose content is known: it is not read to check it.
    pub(super) known_scratch: Vec<PathBuf>,
    /// Bytes that its memory may grow by.
    pub(super) memory: Option<u64>,
    pub(super) log: LogSettings,
}

/// How the process logs: as the one that has started it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct LogSettings {
    /// What to log.
    pub filter: String,
    /// Whether a line is a JSON object.
    pub json: bool,
    /// Whether the line of a panic leaves its message out.
    pub hides_panics: bool,
}

/// Names a request among those that are under way.
pub(super) type Id = u64;

/// From the process of a step.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Up {
    /// The first one: it waits for its order. The process, whose memory may be looked at.
    Began {
        process: u32,
    },
    Log {
        level: LogLevel,
        message: String,
    },
    Progress {
        done: u64,
        total: u64,
        message: Option<String>,
    },
    Beat,
    /// Store an object; its chunks are asked for by [`Down::Wants`].
    Put {
        id: Id,
        bucket: String,
        key: String,
    },
    /// With a chunk beside it.
    PutChunk {
        id: Id,
    },
    PutEnd {
        id: Id,
    },
    PutBroke {
        id: Id,
        why: String,
    },
    Get {
        id: Id,
        bucket: String,
        key: String,
    },
    /// The next chunk of an object that was opened.
    More {
        id: Id,
    },
    /// No more of a request is waited for: it is over, or the code has dropped it.
    Close {
        id: Id,
    },
    Delete {
        id: Id,
        prefix: String,
    },
    /// With the body beside it.
    Call {
        id: Id,
        request: WireRequest,
    },
    /// The code has ended.
    Done(Box<Done>),
}

/// What the code came to.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Done {
    pub(super) result: StepResult<Value>,
    pub(super) sql: Vec<Sql>,
    /// The scratch files that it has sealed, by their SHA-256.
    pub(super) sealed: Vec<String>,
    /// Its last call was provably never sent.
    pub(super) unsent: bool,
}

/// To the process of a step.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Down {
    Order(Box<Order>),
    Cancel(CancelReason),
    Wants {
        id: Id,
    },
    Stored {
        id: Id,
        stored: Result<u64, ObjectError>,
    },
    Opened {
        id: Id,
        opened: Result<(), ObjectError>,
    },
    /// With the chunk beside it.
    Chunk {
        id: Id,
    },
    End {
        id: Id,
    },
    Broke {
        id: Id,
        why: String,
    },
    Deleted {
        id: Id,
        deleted: Result<u64, ObjectError>,
    },
    /// With the body beside it.
    Answer {
        id: Id,
        answer: Result<WireAnswer, ServiceError>,
    },
}

/// A request to a service, without its body.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WireRequest {
    service: String,
    method: Method,
    path: String,
    headers: Vec<(String, String)>,
    has_body: bool,
    longest_answer: usize,
}

/// Names of headers that a step's context sets.
const HEADERS: [&str; 4] = ["accept", "content-type", "idempotency-key", "traceparent"];

impl WireRequest {
    pub(super) fn of(request: ServiceRequest) -> (Self, Bytes) {
        let headers = request.headers.into_iter();
        let wire = Self {
            service: request.service,
            method: request.method,
            path: request.path,
            headers: headers
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            has_body: request.body.is_some(),
            longest_answer: request.longest_answer,
        };
        (wire, request.body.unwrap_or_default())
    }

    /// The request; `None`: it has a header that no context sets.
    pub(super) fn with(self, body: Bytes) -> Option<ServiceRequest> {
        let named = |(name, value): (String, String)| {
            let known = HEADERS.into_iter().find(|known| *known == name)?;
            Some((known, value))
        };
        Some(ServiceRequest {
            service: self.service,
            method: self.method,
            path: self.path,
            headers: self.headers.into_iter().map(named).collect::<Option<_>>()?,
            body: self.has_body.then_some(body),
            longest_answer: self.longest_answer,
        })
    }
}

/// What a service said, without its body.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WireAnswer {
    status: u16,
    retry_after: Option<Duration>,
    cut: bool,
}

impl WireAnswer {
    pub(super) fn of(answer: ServiceAnswer) -> (Self, Bytes) {
        let wire = Self {
            status: answer.status,
            retry_after: answer.retry_after,
            cut: answer.cut,
        };
        (wire, answer.body)
    }

    pub(super) fn with(self, body: Bytes) -> ServiceAnswer {
        ServiceAnswer {
            status: self.status,
            retry_after: self.retry_after,
            body,
            cut: self.cut,
        }
    }
}

/// A frame as it goes over the socket.
pub(super) fn encoded<T: Serialize>(message: &T, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let json = serde_json::to_vec(message)?;
    let length = |length: usize| {
        let length = u32::try_from(length)
            .ok()
            .filter(|length| *length <= LONGEST);
        length.ok_or_else(|| io::Error::other("a frame is too long"))
    };
    let (of_json, of_bytes) = (length(json.len())?, length(bytes.len())?);
    let mut frame = Vec::with_capacity(8 + json.len() + bytes.len());
    frame.extend_from_slice(&of_json.to_be_bytes());
    frame.extend_from_slice(&of_bytes.to_be_bytes());
    frame.extend_from_slice(&json);
    frame.extend_from_slice(bytes);
    Ok(frame)
}

fn lengths(head: [u8; 8]) -> io::Result<(usize, usize)> {
    let [a, b, c, d, e, f, g, h] = head;
    let (json, bytes) = (
        u32::from_be_bytes([a, b, c, d]),
        u32::from_be_bytes([e, f, g, h]),
    );
    if json > LONGEST || bytes > LONGEST {
        return Err(io::Error::other("a frame is too long"));
    }
    Ok((json as usize, bytes as usize))
}

/// The next frame; `None`: the other side has gone.
pub(super) async fn read<T: DeserializeOwned>(
    from: &mut (impl AsyncRead + Unpin),
) -> io::Result<Option<(T, Bytes)>> {
    let mut head = [0; 8];
    match from.read_exact(&mut head).await {
        Err(error) if is_end(&error) => return Ok(None),
        read => read?,
    };
    let (of_json, of_bytes) = lengths(head)?;
    let (mut json, mut bytes) = (vec![0; of_json], vec![0; of_bytes]);
    from.read_exact(&mut json).await?;
    from.read_exact(&mut bytes).await?;
    Ok(Some((serde_json::from_slice(&json)?, bytes.into())))
}

/// The same where a thread waits.
pub(super) fn read_blocking<T: DeserializeOwned>(
    from: &mut impl Read,
) -> io::Result<Option<(T, Bytes)>> {
    let mut head = [0; 8];
    match from.read_exact(&mut head) {
        Err(error) if is_end(&error) => return Ok(None),
        read => read?,
    }
    let (of_json, of_bytes) = lengths(head)?;
    let (mut json, mut bytes) = (vec![0; of_json], vec![0; of_bytes]);
    from.read_exact(&mut json)?;
    from.read_exact(&mut bytes)?;
    Ok(Some((serde_json::from_slice(&json)?, bytes.into())))
}

fn is_end(error: &io::Error) -> bool {
    // Of a process that was killed the socket may be reset.
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset
    )
}

pub(super) async fn write(
    to: &mut (impl AsyncWrite + Unpin),
    message: &Down,
    bytes: &[u8],
) -> io::Result<()> {
    to.write_all(&encoded(message, bytes)?).await
}

pub(super) fn write_blocking(to: &mut impl Write, message: &Up, bytes: &[u8]) -> io::Result<()> {
    to.write_all(&encoded(message, bytes)?)
}
