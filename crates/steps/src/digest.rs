//! Size and SHA-256 of bytes that go by.

use crate::ports::ByteStream;
use futures::StreamExt;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// A digest that is complete once its stream has been read to the end.
#[derive(Debug, Clone, Default)]
pub struct RunningDigest(Arc<Mutex<(Sha256, u64)>>);

impl RunningDigest {
    /// Adds what goes by.
    pub(crate) fn update(&self, bytes: &[u8]) {
        let mut state = self.0.lock();
        state.0.update(bytes);
        state.1 += bytes.len() as u64;
    }

    /// Lower-case hexadecimal SHA-256 of what has gone by.
    #[must_use]
    pub fn finish(&self) -> String {
        let state = self.0.lock();
        hex(&state.0.clone().finalize())
    }

    /// Bytes that have gone by.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.0.lock().1
    }
}

/// Measures a stream while it goes by.
#[must_use]
pub fn measured(body: ByteStream) -> (ByteStream, RunningDigest) {
    let digest = RunningDigest::default();
    let seen = digest.clone();
    let body = body.inspect(move |chunk| {
        if let Ok(bytes) = chunk {
            seen.update(bytes);
        }
    });
    (body.boxed(), digest)
}

/// Lower-case hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}
