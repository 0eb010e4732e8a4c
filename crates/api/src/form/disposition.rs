//! The headers of a part, read from the bytes that were sent: the field's name, and a file name
//! that has not been decoded, cut or tidied before it is judged. Must not repair anything.

use crate::problem::malformed;
use counterstep_contracts::{FileName, ProblemCode};
use counterstep_operations::{Refused, invalid};

/// What a part says of itself.
#[derive(Debug)]
pub(super) struct PartHeaders {
    /// The form field.
    pub(super) field: String,
    /// Whether it is a file.
    pub(super) file: FilePart,
    /// As declared, where that can stand in a header.
    pub(super) content_type: Option<String>,
}

/// Whether a part is a file, by its `filename`.
#[derive(Debug)]
pub(super) enum FilePart {
    /// It has none.
    No,
    /// It is empty: of a page's file input in which nothing was chosen, where the part has no bytes either.
    Blank,
    /// It has this one.
    Named(FileName),
}

/// Reads a part's header lines.
pub(super) fn read(block: &[u8]) -> Result<PartHeaders, Refused> {
    let mut headers = Vec::new();
    let mut broken = false;
    for line in Lines(Some(block)) {
        match line.iter().position(|&byte| byte == b':') {
            Some(colon) if !line.starts_with(b" ") && !line.starts_with(b"\t") => {
                headers.push((
                    line[..colon].to_ascii_lowercase(),
                    line[colon + 1..].trim_ascii(),
                ));
            }
            _ => broken = true,
        }
    }
    let all = |name: &str| {
        headers
            .iter()
            .filter(|(n, _)| n == name.as_bytes())
            .map(|(_, v)| *v)
            .collect::<Vec<_>>()
    };
    let disposition = match all("content-disposition")[..] {
        [one] => one,
        _ => {
            return Err(malformed(
                "a part needs one Content-Disposition header: form-data with a name",
            ));
        }
    };
    // Before the lines that make no sense are: a line break in a file name leaves such a line
    // behind.
    let (field, file) = disposition_of(disposition)?;
    if broken {
        return Err(malformed("a header line of a part is not `name: value`").at(field));
    }
    let packed = |value: &[u8]| {
        ![&b"binary"[..], b"8bit", b"7bit"]
            .iter()
            .any(|plain| value.eq_ignore_ascii_case(plain))
    };
    if all("content-transfer-encoding").into_iter().any(packed) {
        let detail = "a part must be sent as it is, without a Content-Transfer-Encoding";
        return Err(Refused::new(ProblemCode::UnsupportedMediaType, detail).at(field));
    }
    let content_type = all("content-type")
        .first()
        .and_then(|value| std::str::from_utf8(value).ok());
    let presentable = |text: &&str| {
        (3..=200).contains(&text.len()) && text.bytes().all(|b| (b' '..=b'~').contains(&b))
    };
    Ok(PartHeaders {
        field,
        file,
        content_type: content_type.filter(presentable).map(str::to_owned),
    })
}

/// The lines of a header block.
struct Lines<'a>(Option<&'a [u8]>);

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];
    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.0?;
        let (line, after) = match memchr::memmem::find(rest, b"\r\n") {
            Some(end) => (&rest[..end], Some(&rest[end + 2..])),
            None => (rest, None),
        };
        self.0 = after;
        Some(line)
    }
}

pub(super) fn bad_name(detail: impl Into<String>) -> Refused {
    Refused::new(ProblemCode::InvalidFileName, detail)
}

/// Field and file name of a `Content-Disposition`.
fn disposition_of(value: &[u8]) -> Result<(String, FilePart), Refused> {
    let (kind, mut rest) = split_at_byte(value, b';');
    if !kind.trim_ascii().eq_ignore_ascii_case(b"form-data") {
        return Err(malformed(
            "the Content-Disposition of a part must be form-data",
        ));
    }
    let (mut field, mut plain, mut extended) = (None, None, None);
    while !rest.trim_ascii().is_empty() {
        let (name, after) = split_at_byte(rest, b'=');
        let is_file = name
            .trim_ascii()
            .to_ascii_lowercase()
            .starts_with(b"filename");
        let unreadable = || match is_file {
            true => bad_name(
                "a file name stands in quotes, and holds no line break and no quote that is not \\\"",
            ),
            false => malformed("a parameter of a Content-Disposition cannot be read"),
        };
        let (text, after) = parameter(after).ok_or_else(unreadable)?;
        let place = match &*name.trim_ascii().to_ascii_lowercase() {
            b"name" => &mut field,
            b"filename" => &mut plain,
            b"filename*" => &mut extended,
            _ => &mut None,
        };
        if place.replace(text).is_some() {
            return Err(unreadable());
        }
        rest = after;
    }
    let field = field.ok_or_else(|| malformed("the Content-Disposition of a part needs a name"))?;
    let field = String::from_utf8(field)
        .map_err(|_| malformed("the name of a form field must be UTF-8"))?;
    if field.is_empty() || field.len() > 200 || field.chars().any(char::is_control) {
        return Err(invalid(
            "the name of a form field has 1 to 200 bytes and no control characters",
        ));
    }
    if extended.is_none() && plain.as_ref().is_some_and(Vec::is_empty) {
        return Ok((field, FilePart::Blank));
    }
    // Where both are there, a reader of the name may pick either: both must be acceptable.
    let plain = plain.map(|bytes| judged(bytes, &field)).transpose()?;
    let extended = extended
        .map(|bytes| judged(percent_decoded(&bytes, &field)?, &field))
        .transpose()?;
    let name = extended.or(plain);
    Ok((field, name.map_or(FilePart::No, FilePart::Named)))
}

fn judged(bytes: Vec<u8>, field: &str) -> Result<FileName, Refused> {
    let text =
        String::from_utf8(bytes).map_err(|_| bad_name("a file name must be UTF-8").at(field))?;
    FileName::parse(&text).map_err(|error| bad_name(error.to_string()).at(field))
}

/// `UTF-8'en'na%C3%AFve` (RFC 5987).
fn percent_decoded(value: &[u8], field: &str) -> Result<Vec<u8>, Refused> {
    let refused = || bad_name("`filename*` is UTF-8'' and a percent-encoded name").at(field);
    let (charset, rest) = split_at_byte(value, b'\'');
    let (_language, text) = split_at_byte(rest, b'\'');
    if !charset.eq_ignore_ascii_case(b"utf-8") {
        return Err(refused());
    }
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(&byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || {
            bytes
                .next()
                .and_then(|&digit| char::from(digit).to_digit(16))
        };
        let (Some(high), Some(low)) = (digit(), digit()) else {
            return Err(refused());
        };
        decoded.push((high * 16 + low) as u8);
    }
    Ok(decoded)
}

/// The value of a parameter and what follows its semicolon. In quotes only `\"` and `\\` are
/// escapes: a browser sends the backslashes of a path as they are, and they must be seen.
fn parameter(value: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let value = value.trim_ascii_start();
    let Some(mut rest) = value.strip_prefix(b"\"") else {
        let (token, after) = split_at_byte(value, b';');
        return Some((token.trim_ascii().to_vec(), after));
    };
    let mut text = Vec::new();
    loop {
        match rest {
            [b'\\', escaped @ (b'"' | b'\\'), after @ ..] => {
                text.push(*escaped);
                rest = after;
            }
            [b'"', after @ ..] => {
                return match after.trim_ascii_start() {
                    [] => Some((text, &[])),
                    [b';', after @ ..] => Some((text, after)),
                    _ => None,
                };
            }
            [byte, after @ ..] => {
                text.push(*byte);
                rest = after;
            }
            [] => return None,
        }
    }
}

fn split_at_byte(bytes: &[u8], separator: u8) -> (&[u8], &[u8]) {
    match bytes.iter().position(|&byte| byte == separator) {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, &[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use counterstep_contracts::ProblemCode::{InvalidFileName, MalformedBody};

    fn name(parameters: &str) -> Result<String, ProblemCode> {
        let block = format!(
            "Content-Disposition: form-data; name=\"f\"; {parameters}\r\nContent-Type: text/plain"
        );
        let read = read(block.as_bytes()).map_err(|refused| refused.code())?;
        assert_eq!(read.content_type.as_deref(), Some("text/plain"));
        match read.file {
            FilePart::Named(name) => Ok(name.as_str().to_owned()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn good_names_are_read_as_sent() {
        for (parameters, expected) in [
            ("filename=\"a b.txt\"", "a b.txt"),
            ("filename=a.txt", "a.txt"),
            ("FILENAME = \"a;b=c.txt\" ", "a;b=c.txt"),
            (r#"filename="a\"b.txt""#, "a\"b.txt"),
            ("filename=\"Ünï 名.txt\"", "Ünï 名.txt"),
            ("filename=\"a%22b.txt\"", "a%22b.txt"),
            (
                "filename=\"na.txt\"; filename*=UTF-8''na%C3%AFve.txt",
                "naïve.txt",
            ),
        ] {
            assert_eq!(name(parameters).as_deref(), Ok(expected), "{parameters}");
        }
    }

    #[test]
    fn bad_names_are_seen_as_sent() {
        let long = format!("filename=\"{}\"", "x".repeat(300));
        for parameters in [
            "filename=\"../../x\"",
            "filename=../../x",
            "filename=\"..\\..\\x\"",
            "filename=\"..\\\\..\\\\x\"",
            "filename=\"C:\\x\"",
            "filename=\"C:\\\"",
            "filename=\"%2e%2e%2f\"",
            "filename=\"a\0b\"",
            "filename=\"a\r\nb\"",
            "filename=\"a\r\nX: b\"",
            "filename=\"a\nb\"",
            "filename=\"a\rb\"",
            "filename=\"a\u{202e}b\"",
            "filename=\".\"",
            "filename=\"a\"b.txt\"",
            "filename=\"a\"; filename=\"b\"",
            "filename=\"a\"; filename*=UTF-8''..%2Fx",
            "filename*=UTF-8''a%00b",
            "filename*=UTF-8''a%0d%0ab",
            "filename*=UTF-8''%252e%252e%252f",
            "filename*=UTF-8''a%ff",
            "filename*=UTF-8''a%4",
            "filename*=latin1''a",
            "filename=\"../x\"; filename*=UTF-8''fine.txt",
            &long,
        ] {
            assert_eq!(name(parameters), Err(InvalidFileName), "{parameters}");
        }
    }

    #[test]
    fn an_empty_name_is_of_a_file_input_that_was_left_blank() {
        for (parameters, is_blank) in [
            ("filename=\"\"", true),
            ("filename=", true),
            ("filename=\"a\"", false),
            ("filename=\"\"; filename*=UTF-8''a", false),
        ] {
            let block = format!("Content-Disposition: form-data; name=\"f\"; {parameters}");
            let read = read(block.as_bytes()).map(|headers| headers.file);
            let found = matches!(read, Ok(FilePart::Blank));
            assert_eq!(found, is_blank, "{parameters}: {read:?}");
        }
    }

    #[test]
    fn broken_headers_are_broken_requests() {
        for block in [
            "Content-Type: text/plain",
            "Content-Disposition: form-data",
            "Content-Disposition: attachment; name=\"a\"",
            "Content-Disposition: form-data; name=\"a",
            "Content-Disposition: form-data; name=\"a\"\r\nContent-Disposition: form-data; name=\"b\"",
            "Content-Disposition: form-data; name=\"a\"\r\nnonsense",
            "Content-Disposition: form-data; name=\"a\"\r\n folded: x",
        ] {
            assert_eq!(
                read(block.as_bytes()).unwrap_err().code(),
                MalformedBody,
                "{block}"
            );
        }
    }
}
