//! A form as it arrives: its parts one after the other, each with its bytes, under the limits. Must
//! not know what the fields mean.

use super::disposition::{self, FilePart, PartHeaders, bad_name};
use super::parser::{Parser, Piece};
use crate::problem::{malformed, too_large};
use crate::settings::ApiSettings;
use bytes::Bytes;
use counterstep_contracts::FileName;
use counterstep_operations::Refused;
use tokio::sync::mpsc;

/// What the request's side sends over while the body arrives. Where the channel closes without an
/// `End`, the client went away.
#[derive(Debug)]
pub(crate) enum Sent {
    /// Some of the body.
    Bytes(Bytes),
    /// The body broke a limit or broke off.
    Broken(Refused),
    /// The body is complete.
    End,
}

/// How much a form may hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    files: u32,
    file_bytes: u64,
    fields: u32,
    field_bytes: usize,
    text_bytes: usize,
}

impl Limits {
    /// As set.
    pub(crate) fn of(settings: &ApiSettings) -> Self {
        Self {
            files: settings.max_files,
            file_bytes: settings.max_file_bytes,
            fields: settings.max_fields,
            field_bytes: settings.max_field_bytes,
            text_bytes: settings.max_json_bytes,
        }
    }
}

/// A part of a form, before its bytes.
#[derive(Debug)]
pub(crate) struct Part {
    /// The form field.
    pub(crate) field: String,
    /// What it is.
    pub(crate) kind: PartKind,
}

/// What a part is.
#[derive(Debug)]
pub(crate) enum PartKind {
    /// It has a file name.
    File {
        /// What the client calls it.
        name: FileName,
        /// As the client declares it.
        content_type: String,
    },
    /// It has the content type application/json.
    Json,
    /// Anything else.
    Text,
}

/// Whether a part is JSON, by its content type.
pub(crate) fn is_json(content_type: Option<&str>) -> bool {
    let essence = content_type
        .and_then(|text| text.split(';').next())
        .unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("application/json")
}

/// A form that is arriving.
#[derive(Debug)]
pub(crate) struct Form {
    from: mpsc::Receiver<Sent>,
    parser: Parser,
    limits: Limits,
    files: u32,
    fields: u32,
    text_bytes: usize,
    /// The current part's bytes so far; `None` between parts.
    file_bytes: Option<u64>,
    /// Whether the current part is a file: the limit of files is not that of texts.
    is_file: bool,
}

impl Form {
    /// Of the bytes that come through `from`.
    pub(crate) fn new(boundary: &str, from: mpsc::Receiver<Sent>, limits: Limits) -> Self {
        let parser = Parser::new(boundary);
        Self {
            from,
            parser,
            limits,
            files: 0,
            fields: 0,
            text_bytes: 0,
            file_bytes: None,
            is_file: false,
        }
    }

    /// The next part; `None` once the form is over and the body has arrived to its last byte.
    pub(crate) async fn part(&mut self) -> Result<Option<Part>, Refused> {
        while self.file_bytes.is_some() {
            self.data().await?;
        }
        loop {
            let Piece::Headers(block) = self.piece().await? else {
                return self.rest().await.map(|()| None);
            };
            let PartHeaders {
                field,
                file,
                content_type,
            } = disposition::read(&block)?;
            match file {
                FilePart::Named(name) => {
                    return self.begin(field, content_type, Some(name)).map(Some);
                }
                FilePart::No => return self.begin(field, content_type, None).map(Some),
                FilePart::Blank if matches!(self.piece().await?, Piece::PartEnd) => {}
                FilePart::Blank => {
                    let said = "a file needs a name: its `filename` is empty";
                    return Err(bad_name(said).at(field));
                }
            }
        }
    }

    fn begin(
        &mut self,
        field: String,
        content_type: Option<String>,
        name: Option<FileName>,
    ) -> Result<Part, Refused> {
        self.file_bytes = Some(0);
        self.is_file = name.is_some();
        let kind = match name {
            Some(name) => {
                self.files += 1;
                if self.files > self.limits.files {
                    let limit = self.limits.files;
                    return Err(
                        too_large(format!("a form may have {limit} files: send fewer")).at(field),
                    );
                }
                let content_type =
                    content_type.unwrap_or_else(|| "application/octet-stream".to_owned());
                PartKind::File { name, content_type }
            }
            None => {
                self.fields += 1;
                if self.fields > self.limits.fields {
                    let limit = self.limits.fields;
                    return Err(too_large(format!(
                        "a form may have {limit} text fields: send fewer"
                    ))
                    .at(field));
                }
                if is_json(content_type.as_deref()) {
                    PartKind::Json
                } else {
                    PartKind::Text
                }
            }
        };
        Ok(Part { field, kind })
    }

    /// More of the current part; `None` at its end.
    pub(crate) async fn data(&mut self) -> Result<Option<Bytes>, Refused> {
        let Some(so_far) = self.file_bytes else {
            return Ok(None);
        };
        let Piece::Data(bytes) = self.piece().await? else {
            self.file_bytes = None;
            return Ok(None);
        };
        let so_far = so_far + bytes.len() as u64;
        if self.is_file && so_far > self.limits.file_bytes {
            let limit = self.limits.file_bytes;
            return Err(too_large(format!("a file may have {limit} bytes")));
        }
        self.file_bytes = Some(so_far);
        Ok(Some(bytes))
    }

    /// The whole of the current part, which is no file.
    pub(crate) async fn text(&mut self) -> Result<Vec<u8>, Refused> {
        let mut text = Vec::new();
        while let Some(bytes) = self.data().await? {
            self.text_bytes += bytes.len();
            if text.len() + bytes.len() > self.limits.field_bytes
                || self.text_bytes > self.limits.text_bytes
            {
                let Limits {
                    field_bytes,
                    text_bytes,
                    ..
                } = self.limits;
                return Err(too_large(format!(
                    "a text field may have {field_bytes} bytes, and all of them {text_bytes}: send more as a file"
                )));
            }
            text.extend_from_slice(&bytes);
        }
        Ok(text)
    }

    async fn piece(&mut self) -> Result<Piece, Refused> {
        loop {
            match self.parser.next().map_err(malformed)? {
                Piece::Hungry => match self.receive().await? {
                    Some(bytes) => self.parser.feed(&bytes),
                    None => return Err(malformed("the form ended before its closing boundary")),
                },
                piece => return Ok(piece),
            }
        }
    }

    /// Reads on to the body's end: a request that breaks off after its last boundary has not
    /// arrived.
    async fn rest(&mut self) -> Result<(), Refused> {
        while self.receive().await?.is_some() {}
        Ok(())
    }

    async fn receive(&mut self) -> Result<Option<Bytes>, Refused> {
        match self.from.recv().await {
            Some(Sent::Bytes(bytes)) => Ok(Some(bytes)),
            Some(Sent::Broken(refused)) => Err(refused),
            Some(Sent::End) => Ok(None),
            None => Err(malformed(
                "the client went away before the form was complete",
            )),
        }
    }
}
