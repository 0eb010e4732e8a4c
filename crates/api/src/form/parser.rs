//! Where the parts of a form begin and end: bytes in, pieces out. No I/O, no limit on what a part
//! may hold; of a part's headers it knows only where they end.

use bytes::{Buf, Bytes, BytesMut};
use memchr::memmem::Finder;

/// Maximum bytes of the headers of one part.
const MAX_HEADERS: usize = 16 << 10;

/// Maximum bytes of white space after a boundary.
const MAX_PADDING: usize = 255;

/// What the bytes so far amount to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Feed more bytes.
    Hungry,
    /// A part begins; its header lines, without the empty line at their end.
    Headers(Bytes),
    /// Some of the part's bytes.
    Data(Bytes),
    /// The part is over.
    PartEnd,
    /// The form is over. What follows means nothing.
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Preamble,
    AfterBoundary,
    Headers,
    Data,
    Over,
}

/// Splits a form.
#[derive(Debug)]
pub(super) struct Parser {
    boundary: Finder<'static>,
    buffer: BytesMut,
    state: State,
}

impl Parser {
    pub(super) fn new(boundary: &str) -> Self {
        // The first boundary has no line before it: with an empty one put there, it is like all
        // others.
        let buffer = BytesMut::from(&b"\r\n"[..]);
        let boundary = Finder::new(&format!("\r\n--{boundary}")).into_owned();
        Self {
            boundary,
            buffer,
            state: State::Preamble,
        }
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        if self.state != State::Over {
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// The next piece, or why there can be none.
    pub(super) fn next(&mut self) -> Result<Piece, &'static str> {
        loop {
            match self.state {
                State::Preamble => {
                    let Some(at) = self.boundary.find(&self.buffer) else {
                        self.buffer.advance(self.certain());
                        return Ok(Piece::Hungry);
                    };
                    self.buffer.advance(at + self.boundary.needle().len());
                    self.state = State::AfterBoundary;
                }
                State::AfterBoundary => {
                    let Some(line) = self.rest_of_boundary_line()? else {
                        return Ok(Piece::Hungry);
                    };
                    if line == Line::Last {
                        self.state = State::Over;
                        self.buffer = BytesMut::new();
                    } else {
                        self.state = State::Headers;
                    }
                }
                State::Headers => {
                    if self.buffer.starts_with(b"\r\n") {
                        return Err(
                            "a part has no headers: it needs a Content-Disposition with a name",
                        );
                    }
                    let end = memchr::memmem::find(&self.buffer, b"\r\n\r\n");
                    // Before the end is there, the last bytes may be three of the four that end them.
                    let length = end.unwrap_or(self.buffer.len().saturating_sub(3));
                    if length > MAX_HEADERS {
                        return Err("the headers of a part are over 16 KiB");
                    }
                    let Some(end) = end else {
                        return Ok(Piece::Hungry);
                    };
                    let headers = self.buffer.split_to(end).freeze();
                    self.buffer.advance(4);
                    self.state = State::Data;
                    return Ok(Piece::Headers(headers));
                }
                State::Data => {
                    return Ok(match self.boundary.find(&self.buffer) {
                        Some(0) => {
                            self.buffer.advance(self.boundary.needle().len());
                            self.state = State::AfterBoundary;
                            Piece::PartEnd
                        }
                        Some(at) => Piece::Data(self.buffer.split_to(at).freeze()),
                        None => match self.certain() {
                            0 => Piece::Hungry,
                            certain => Piece::Data(self.buffer.split_to(certain).freeze()),
                        },
                    });
                }
                State::Over => return Ok(Piece::End),
            }
        }
    }

    /// Bytes at the buffer's start that no boundary can reach into.
    fn certain(&self) -> usize {
        self.buffer
            .len()
            .saturating_sub(self.boundary.needle().len() - 1)
    }

    /// After `--boundary`: `--` ends the form, white space and a line break begin a part. `None`:
    /// not decided yet.
    fn rest_of_boundary_line(&mut self) -> Result<Option<Line>, &'static str> {
        if self.buffer.starts_with(b"--") {
            return Ok(Some(Line::Last));
        }
        let blank = self
            .buffer
            .iter()
            .take_while(|byte| matches!(byte, b' ' | b'\t'))
            .count();
        match &self.buffer[blank..] {
            _ if blank > MAX_PADDING => Err("a boundary is followed by over 255 blanks"),
            [b'\r', b'\n', ..] => {
                self.buffer.advance(blank + 2);
                Ok(Some(Line::Next))
            }
            [] | [b'\r'] => Ok(None),
            [b'-'] if blank == 0 => Ok(None),
            _ => Err("a boundary is followed by something else than a line break"),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Line {
    Next,
    Last,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each part as headers and content.
    type Parts = Vec<(String, Vec<u8>)>;

    /// `None`: the form did not end.
    fn read(form: &[u8], chunk: usize) -> Result<Option<Parts>, &'static str> {
        let mut parser = Parser::new("XX");
        let mut parts = Parts::new();
        let mut chunks = form.chunks(chunk);
        loop {
            match parser.next()? {
                Piece::Hungry => match chunks.next() {
                    Some(bytes) => parser.feed(bytes),
                    None => return Ok(None),
                },
                Piece::Headers(headers) => {
                    parts.push((String::from_utf8(headers.to_vec()).unwrap(), Vec::new()))
                }
                Piece::Data(bytes) => parts.last_mut().unwrap().1.extend_from_slice(&bytes),
                Piece::PartEnd => {}
                Piece::End => return Ok(Some(parts)),
            }
        }
    }

    #[test]
    fn a_form_is_read_alike_however_it_is_cut() {
        let form =
            b"preamble\r\n--XX \t\r\nA: 1\r\nB: 2\r\n\r\none\r\n--X\r\n-\r\n--XX\r\nC: 3\r\n\r\n\r\n--XX--\r\nepilogue";
        let expected = vec![
            ("A: 1\r\nB: 2".to_owned(), b"one\r\n--X\r\n-".to_vec()),
            ("C: 3".to_owned(), Vec::new()),
        ];
        for chunk in 1..form.len() {
            assert_eq!(
                read(form, chunk).unwrap().unwrap(),
                expected,
                "chunks of {chunk}"
            );
        }
    }

    #[test]
    fn a_limit_is_the_same_however_a_form_is_cut() {
        let of_headers = |length: usize| {
            let headers = format!("A: {}", "a".repeat(length - 3));
            format!("--XX\r\n{headers}\r\n\r\n\r\n--XX--")
        };
        let of_padding = |length: usize| {
            let padding = " ".repeat(length);
            format!("--XX{padding}\r\nA: 1\r\n\r\n\r\n--XX--")
        };
        let (most, blanks) = (MAX_HEADERS, MAX_PADDING);
        for (form, is_taken) in [
            (of_headers(most), true),
            (of_headers(most + 1), false),
            (of_padding(blanks), true),
            (of_padding(blanks + 1), false),
        ] {
            for chunk in [1, 2, 3, 4, 5, 7, 1_000, form.len()] {
                let read = read(form.as_bytes(), chunk);
                assert_eq!(read.is_ok(), is_taken, "{} bytes by {chunk}", form.len());
            }
        }
    }

    #[test]
    fn a_form_may_be_empty_and_must_end() {
        assert_eq!(read(b"--XX--", 1), Ok(Some(Vec::new())));
        for cut in [
            &b""[..],
            b"--X",
            b"--XX\r\nA: 1\r\n\r\nabc",
            b"--XX\r\nA: 1\r\n\r\nabc\r\n--XX",
            b"no boundary",
        ] {
            assert_eq!(read(cut, 2), Ok(None));
        }
    }

    #[test]
    fn broken_framing_is_an_error() {
        let long = format!("--XX\r\nA: {}\r\n\r\n\r\n--XX--", "a".repeat(MAX_HEADERS));
        for form in [
            &b"--XXY\r\nA: 1\r\n\r\n\r\n--XX--"[..],
            b"--XX\r\n\r\nabc\r\n--XX--",
            long.as_bytes(),
        ] {
            assert!(read(form, 7).is_err());
        }
    }

    #[test]
    fn no_more_is_kept_than_was_fed_and_could_be_a_boundary() {
        let mut parser = Parser::new("XX");
        parser.feed(b"--XX\r\nA: 1\r\n\r\n");
        assert!(matches!(parser.next(), Ok(Piece::Headers(_))));
        for _ in 0..100 {
            parser.feed(&[b'\r'; 1000]);
            while parser.next() != Ok(Piece::Hungry) {}
            assert!(parser.buffer.len() < 6);
        }
    }
}
