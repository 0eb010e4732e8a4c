//! The form `text/event-stream`, as far as the API uses it. Must not know what an event is about.

/// An event as it was sent.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) event: String,
    pub(super) data: String,
}

/// What has arrived of a `text/event-stream` and is no whole event yet. Lines end with LF or CR LF.
#[derive(Debug, Default)]
pub(super) struct Lines {
    line: Vec<u8>,
    message: Message,
}

impl Lines {
    /// The events that this completes.
    pub(super) fn push(&mut self, chunk: &[u8]) -> Vec<Message> {
        let mut whole = Vec::new();
        for part in chunk.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                whole.extend(self.line());
                self.line.clear();
            }
        }
        whole
    }

    /// What a line completes.
    fn line(&mut self) -> Option<Message> {
        let line = String::from_utf8_lossy(&self.line);
        let line = line.trim_end_matches(['\n', '\r']);
        if line.is_empty() {
            let message = std::mem::take(&mut self.message);
            return (!message.data.is_empty()).then_some(message);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.message.event),
            "data" => {
                if !self.message.data.is_empty() {
                    self.message.data.push('\n');
                }
                self.message.data.push_str(value);
            }
            // A comment, or what an event of this API has in its data too.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_whole_however_they_are_cut() {
        let text = "retry: 1000\n\n: still here\r\n\nid: 1\ndata: {\"a\":\"\u{fc}\"}\n\nevent: progress\r\ndata:{}\r\n\r\nid: 2\ndata: x";
        let expected = |event: &str, data: &str| Message {
            event: event.to_owned(),
            data: data.to_owned(),
        };
        for size in 1..text.len() {
            let mut lines = Lines::default();
            let whole: Vec<_> = text
                .as_bytes()
                .chunks(size)
                .flat_map(|chunk| lines.push(chunk))
                .collect();
            let all = [
                expected("", "{\"a\":\"\u{fc}\"}"),
                expected("progress", "{}"),
            ];
            assert_eq!(whole, all, "{size}");
        }
    }
}
