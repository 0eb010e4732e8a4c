//! How large an output may be. Outputs, responses and signals are part of the task's rows: each
//! commit after them, each read of the task and each view carries them. Counts; stores nothing.

use crate::error::{StepError, StepResult};
use serde::Serialize;
use std::io;

/// The most bytes that one output may take as JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct OutputLimit(pub usize);

impl Default for OutputLimit {
    fn default() -> Self {
        Self(1024 * 1024)
    }
}

impl OutputLimit {
    /// Checks a value before anything is made of it: one that is far too large must not be copied
    /// first.
    ///
    /// # Errors
    /// Permanent, for a value that takes more. A value that cannot be written as JSON at all
    /// passes: writing it gives the reason.
    pub fn check<T: Serialize + ?Sized>(self, value: &T) -> StepResult<()> {
        match serde_json::to_writer(Left(self.0), value) {
            Err(error) if error.is_io() => Err(StepError::permanent(format_args!(
                "invalid output: it takes more than {} bytes as JSON; expected a small value: store the data as an object \
                 with `ctx.objects().put(..)` and give its `StoredFile`, or raise the setting `output_limit`",
                self.0
            ))),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// Takes at most this many more bytes, and keeps none.
struct Left(usize);

impl io::Write for Left {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self
            .0
            .checked_sub(bytes.len())
            .ok_or(io::ErrorKind::FileTooLarge)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::OutputLimit;
    use serde::ser::{Serialize, SerializeSeq, Serializer};

    /// A list without an end.
    struct Endless;

    impl Serialize for Endless {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut list = serializer.serialize_seq(None)?;
            loop {
                list.serialize_element(&7)?;
            }
        }
    }

    #[test]
    fn of_an_output_that_is_far_too_large_no_more_is_looked_at_than_the_limit() {
        assert!(OutputLimit(1000).check(&Endless).is_err());
    }

    #[test]
    fn an_output_may_take_just_as_many_bytes_as_the_limit_says() {
        let limit = OutputLimit(10);
        for fits in ["12345678", "", "\u{e4}\u{e4}\u{e4}\u{e4}"] {
            assert!(limit.check(fits).is_ok(), "{fits}");
        }
        for too_large in ["123456789", "1234567\n", "\u{e4}\u{e4}\u{e4}\u{e4}x"] {
            let error = limit.check(too_large).unwrap_err();
            assert!(
                !error.class.is_retryable() && error.message.contains("StoredFile"),
                "{error}"
            );
        }
        assert!(limit.check(&[0; 5][..]).is_err());
    }
}
