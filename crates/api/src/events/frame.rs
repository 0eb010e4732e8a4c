//! Events in the form of `text/event-stream`. Must not know what they are about.

use bytes::Bytes;
use counterstep_contracts::AuditSeq;
use counterstep_contracts::http::PROGRESS_EVENT;
use serde::Serialize;

/// A comment: it keeps the connection in use, and clients skip it.
pub(super) const HEARTBEAT: Bytes = Bytes::from_static(b":\n\n");

/// The first lines of a stream: when to come again after a cut, in milliseconds.
pub(super) const RETRY: Bytes = Bytes::from_static(b"retry: 1000\n\n");

/// An event with an id, from which a client goes on after a cut.
pub(super) fn entry(seq: AuditSeq, data: &impl Serialize) -> Result<Bytes, serde_json::Error> {
    // JSON has no line breaks of its own, so one line holds it.
    let data = serde_json::to_string(data)?;
    Ok(format!("id: {seq}\ndata: {data}\n\n").into())
}

/// An event without one: after a cut it is not sent again.
pub(super) fn progress(data: &impl Serialize) -> Result<Bytes, serde_json::Error> {
    let data = serde_json::to_string(data)?;
    Ok(format!("event: {PROGRESS_EVENT}\ndata: {data}\n\n").into())
}

/// An event of the stream of many tasks. Its place is told after it, by [`place`].
pub(super) fn change(data: &impl Serialize) -> Result<Bytes, serde_json::Error> {
    let data = serde_json::to_string(data)?;
    Ok(format!("data: {data}\n\n").into())
}

/// No event: from here a client goes on after a cut.
pub(super) fn place(id: i64) -> Bytes {
    format!("id: {id}\n\n").into()
}
