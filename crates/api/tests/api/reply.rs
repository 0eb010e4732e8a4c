//! An answer as it came over the wire, and what can be said about it.

use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt};

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) async fn of(response: reqwest::Response) -> Self {
        let mut reply = Self::without_body(&response);
        reply.body = response.bytes().await.expect("a whole body").to_vec();
        reply
    }

    /// A body may have no end.
    pub(crate) fn without_body(response: &reqwest::Response) -> Self {
        let status = response.status().as_u16();
        let headers = response
            .headers()
            .iter()
            .map(|(name, value)| {
                (
                    name.as_str().to_owned(),
                    String::from_utf8_lossy(value.as_bytes()).into_owned(),
                )
            })
            .collect();
        Self {
            status,
            headers,
            body: Vec::new(),
        }
    }

    /// Reads one answer from a socket.
    pub(crate) async fn read(socket: &mut (impl AsyncRead + Unpin)) -> Self {
        let mut bytes = Vec::new();
        let head = loop {
            if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
                break end;
            }
            let read = socket
                .read_buf(&mut bytes)
                .await
                .expect("the connection holds");
            assert_ne!(
                read,
                0,
                "closed without an answer: {}",
                String::from_utf8_lossy(&bytes)
            );
        };
        let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
        let mut lines = text.split("\r\n");
        let status = lines
            .next()
            .and_then(|line| line.split(' ').nth(1))
            .expect("a status line")
            .parse()
            .expect("a status");
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let mut reply = Self {
            status,
            headers,
            body: bytes.split_off(head + 4),
        };
        let length: usize = reply
            .header("content-length")
            .map_or(0, |text| text.parse().expect("a length"));
        while reply.body.len() < length {
            let read = socket
                .read_buf(&mut reply.body)
                .await
                .expect("the connection holds");
            assert_ne!(read, 0, "closed in the middle of a body");
        }
        reply
    }

    pub(crate) fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers.iter().map(|(name, value)| (&**name, &**value))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, value)| value.as_str())
    }

    #[track_caller]
    pub(crate) fn json<T: DeserializeOwned>(&self, status: u16) -> T {
        let text = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status, status, "{text}");
        assert_eq!(self.header("content-type"), Some("application/json"));
        assert_eq!(self.header("x-content-type-options"), Some("nosniff"));
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    #[track_caller]
    pub(crate) fn assert_status(&self, status: u16) {
        let text = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status, status, "{text}");
    }

    /// Checks that it is a problem document of this status and code, and returns it.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16, code: &str) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status, status, "{text}");
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json"),
            "{text}"
        );
        assert_eq!(self.header("x-content-type-options"), Some("nosniff"));
        let problem: Value =
            serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_eq!(problem["code"], code, "{text}");
        assert_eq!(problem["status"], status);
        assert_eq!(problem["type"], format!("urn:counterstep:problem:{code}"));
        assert!(!problem["detail"].as_str().expect("a detail").is_empty());
        problem
    }
}
