//! `multipart/form-data` (RFC 7578) as a stream of parts, under limits, holding no more than a
//! chunk in memory.
//!
//! A parser of our own: the crates there are decode a part's headers before anybody sees them, and
//! answer a NUL or a line break in a file name with "broken request". Here a name is judged as it
//! was sent, and the parser can move between threads, so that it lives in the task that owns the
//! upload session and not in the request that may be dropped.

mod disposition;
mod fields_and_files;
mod parser;
mod parts;

pub(crate) use fields_and_files::put_parts;
pub(crate) use parts::{Form, Limits, Part, PartKind, Sent};
