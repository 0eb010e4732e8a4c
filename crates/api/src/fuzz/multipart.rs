//! Forms: what is accepted obeys the limits, means the same however the bytes are cut, and can be written
//! down and read again.

use super::line;
use crate::form::{Form, Limits, Part, PartKind, Sent};
use crate::headers::{BodyKind, body_kind};
use crate::settings::ApiSettings;
use actix_web::http::header::{CONTENT_TYPE, HeaderValue};
use actix_web::test::TestRequest;
use bytes::Bytes;
use counterstep_operations::Refused;
use futures::FutureExt;
use std::collections::BTreeMap;
use tokio::sync::mpsc;

/// A part, and its bytes.
#[derive(Debug, PartialEq, Eq)]
struct Whole {
    field: String,
    kind: Kind,
    bytes: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    File { name: String, content_type: String },
    Json,
    Text,
}

/// The parts that arrived, and why there are no more: code, pointer and text of a refusal.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    parts: Vec<Whole>,
    refused: Option<String>,
}

/// Reads a form: the value of its Content-Type up to a line break; a byte that decides on the limits; one that decides
/// how the body is cut; the body.
///
/// # Panics
/// Where a rule is broken.
pub fn multipart(input: &[u8]) {
    let (content_type, rest) = line(input);
    let Ok(content_type) = HeaderValue::from_bytes(content_type) else {
        return;
    };
    let request = TestRequest::default().insert_header((CONTENT_TYPE, content_type));
    let Ok(BodyKind::Form { boundary }) = body_kind(&request.to_http_request()) else {
        return;
    };
    assert!((1..=70).contains(&boundary.len()), "{boundary:?}");
    let [limits, cut, body @ ..] = rest else {
        return;
    };
    let settings = settings(*limits);
    let at_once = read(&boundary, &settings, [body].into_iter());
    let in_pieces = read(
        &boundary,
        &settings,
        Cut {
            rest: body,
            state: u32::from(*cut),
        },
    );
    assert_eq!(at_once, in_pieces, "the cut decides what a form means");
    obeys(&at_once.parts, &settings);
    if at_once.refused.is_none() {
        let written = written(&boundary, &at_once.parts);
        let again = read(&boundary, &settings, [&written[..]].into_iter());
        assert_eq!(
            at_once, again,
            "a form means something else when it is written again"
        );
    }
}

/// Small limits for an odd byte, so that short inputs reach them; else the defaults.
fn settings(byte: u8) -> ApiSettings {
    let defaults = ApiSettings::default();
    if byte.is_multiple_of(2) {
        return defaults;
    }
    ApiSettings {
        max_files: 2,
        max_file_bytes: 8 << (byte % 8),
        max_fields: 3,
        max_field_bytes: 16,
        max_json_bytes: 40,
        ..defaults
    }
}

/// The bytes in pieces of 1 to 16, now and then a longer one.
struct Cut<'a> {
    rest: &'a [u8],
    state: u32,
}

impl<'a> Iterator for Cut<'a> {
    type Item = &'a [u8];
    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let bytes = match self.state {
            0 => 1,
            state => (state >> 24) as usize % 16 + 1,
        };
        // A linear congruential generator: the same byte cuts the same way. 0 stays 0: byte by byte.
        self.state = self.state.wrapping_mul(1_664_525);
        let (piece, rest) = self.rest.split_at(bytes.min(self.rest.len()));
        self.rest = rest;
        Some(piece)
    }
}

fn read<'a>(
    boundary: &str,
    settings: &ApiSettings,
    pieces: impl Iterator<Item = &'a [u8]>,
) -> Outcome {
    let mut sent: Vec<Sent> = pieces
        .map(|piece| Sent::Bytes(Bytes::copy_from_slice(piece)))
        .collect();
    sent.push(Sent::End);
    let (to, from) = mpsc::channel(sent.len());
    for piece in sent {
        assert!(to.try_send(piece).is_ok(), "the channel has room for all");
    }
    let mut form = Form::new(boundary, from, Limits::of(settings));
    let mut parts = Vec::new();
    let all = all(&mut form, &mut parts).now_or_never();
    let refused = all.expect("all bytes are there: nothing to wait for").err();
    let refused = refused.map(|refused| format!("{:?}", refused.into_parts().0));
    Outcome { parts, refused }
}

async fn all(form: &mut Form, parts: &mut Vec<Whole>) -> Result<(), Refused> {
    while let Some(Part { field, kind }) = form.part().await? {
        let (kind, bytes) = match kind {
            PartKind::File { name, content_type } => {
                let mut bytes = Vec::new();
                while let Some(some) = form.data().await? {
                    assert!(!some.is_empty(), "a piece without bytes");
                    bytes.extend_from_slice(&some);
                }
                let name = name.as_str().to_owned();
                (Kind::File { name, content_type }, bytes)
            }
            PartKind::Json => (Kind::Json, form.text().await?),
            PartKind::Text => (Kind::Text, form.text().await?),
        };
        parts.push(Whole { field, kind, bytes });
    }
    Ok(())
}

fn obeys(parts: &[Whole], settings: &ApiSettings) {
    let mut counts: BTreeMap<bool, usize> = BTreeMap::new();
    let mut text_bytes = 0;
    for Whole { field, kind, bytes } in parts {
        assert!(
            (1..=200).contains(&field.len()) && !field.contains(char::is_control),
            "{field:?}"
        );
        *counts.entry(matches!(kind, Kind::File { .. })).or_default() += 1;
        match kind {
            Kind::File { name, content_type } => {
                is_file_name(name);
                let is_visible = content_type.bytes().all(|it| (b' '..=b'~').contains(&it));
                assert!(is_visible && content_type.len() <= 200, "{content_type:?}");
                assert!(
                    bytes.len() as u64 <= settings.max_file_bytes,
                    "{}",
                    bytes.len()
                );
            }
            Kind::Json | Kind::Text => {
                assert!(bytes.len() <= settings.max_field_bytes, "{}", bytes.len());
                text_bytes += bytes.len();
            }
        }
    }
    assert!(text_bytes <= settings.max_json_bytes, "{text_bytes}");
    let count = |is_file| counts.get(&is_file).copied().unwrap_or(0);
    assert!(count(true) <= settings.max_files as usize);
    assert!(count(false) <= settings.max_fields as usize);
}

/// The rules once more, said in another way than the parser's.
fn is_file_name(name: &str) {
    assert!(
        (1..=255).contains(&name.len()) && name != "." && name != "..",
        "{name:?}"
    );
    let is_bad = |sign: char| {
        let direction = "\u{61c}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}";
        sign < ' '
            || ('\u{7f}'..='\u{9f}').contains(&sign)
            || direction.contains(sign)
            || "/\\".contains(sign)
    };
    assert!(!name.contains(is_bad), "{name:?}");
    assert!(
        name.as_bytes().get(1) != Some(&b':') || !name.as_bytes()[0].is_ascii_alphabetic(),
        "{name:?}"
    );
    let lower = name.to_ascii_lowercase();
    assert!(
        !lower.contains("%2f") && !lower.contains("%5c") && !lower.contains("%00"),
        "{name:?}"
    );
}

fn written(boundary: &str, parts: &[Whole]) -> Vec<u8> {
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    let mut form = Vec::new();
    for Whole { field, kind, bytes } in parts {
        let field = quoted(field);
        let mut head = format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{field}\"");
        match kind {
            Kind::File { name, content_type } => {
                let name = quoted(name);
                head += &format!("; filename=\"{name}\"\r\nContent-Type: {content_type}");
            }
            Kind::Json => head += "\r\nContent-Type: application/json",
            Kind::Text => {}
        }
        form.extend_from_slice(head.as_bytes());
        form.extend_from_slice(b"\r\n\r\n");
        form.extend_from_slice(bytes);
        form.extend_from_slice(b"\r\n");
    }
    form.extend_from_slice(format!("--{boundary}--").as_bytes());
    form
}
