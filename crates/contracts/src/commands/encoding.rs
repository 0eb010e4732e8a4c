//! Words as a shell takes them, and names as an address has them.

/// Words as a shell takes them.
pub fn in_shell<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words = words.into_iter().map(quoted);
    words.collect::<Vec<_>>().join(" ")
}

/// A word that a shell takes as it is.
#[must_use]
pub fn quoted(word: &str) -> String {
    let is_plain = |sign: char| sign.is_ascii_alphanumeric() || "-_./:=@%+,".contains(sign);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A text as one segment of a path.
#[must_use]
pub fn segment(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:@".contains(&byte);
    text.bytes().fold(String::new(), |mut path, byte| {
        match is_plain(byte) {
            true => path.push(char::from(byte)),
            false => path.push_str(&format!("%{byte:02X}")),
        }
        path
    })
}

/// The text of a segment.
pub(super) fn plain(segment: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = segment;
    while let Some((before, behind)) = rest.split_once('%') {
        bytes.extend_from_slice(before.as_bytes());
        let byte = behind
            .get(..2)
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        rest = match byte {
            Some(byte) => {
                bytes.push(byte);
                &behind[2..]
            }
            None => {
                bytes.push(b'%');
                behind
            }
        };
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8_lossy(&bytes).into_owned()
}
