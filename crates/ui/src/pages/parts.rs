//! The texts of a form with files, read while it passes: they stand before its files. Must not judge them, nor hold a
//! file.

use crate::query::Fields;
use actix_web::dev::Payload;
use actix_web::web;
use futures::stream::{self, StreamExt};

/// Texts that are held together, so that a page can show them again.
const MOST_BYTES: usize = 64 << 10;

/// Where the head of a file names it.
const FILE: &[u8] = b"; filename=";

/// The texts, and the whole form with its files still to be read.
pub(super) async fn texts(mut payload: web::Payload) -> (Fields, Payload) {
    let (mut begun, mut held) = (Vec::new(), Vec::new());
    let mut has_file = false;
    while held.len() < MOST_BYTES && !has_file {
        let Some(chunk) = payload.next().await else {
            break;
        };
        // A chunk may begin in the middle of it.
        let before = held.len().saturating_sub(FILE.len());
        held.extend_from_slice(chunk.as_deref().unwrap_or_default());
        has_file = held[before..].windows(FILE.len()).any(|it| it == FILE);
        begun.push(chunk);
    }
    let whole = stream::iter(begun).chain(payload);
    let payload = Box::pin(whole);
    (read(&held), Payload::Stream { payload })
}

/// The parts that have ended and are no file.
fn read(held: &[u8]) -> Fields {
    let text = String::from_utf8_lossy(held);
    let Some((boundary, _)) = text.split_once("\r\n") else {
        return Fields::default();
    };
    let mut parts: Vec<_> = text.split(boundary).skip(1).collect();
    // What stands behind the last boundary has not ended, or is the end.
    parts.pop();
    let read = parts.into_iter().filter_map(|part| {
        let (head, value) = part.split_once("\r\n\r\n")?;
        let (_, name) = head.split_once("; name=\"")?;
        let (name, rest) = name.split_once('"')?;
        let is_text = !rest.contains("; filename=");
        let value = value.strip_suffix("\r\n")?;
        is_text.then(|| (name.to_owned(), value.to_owned()))
    });
    Fields::of_pairs(read.collect())
}
