//! Values that the examples of several operations have. Must not be part of an answer.

/// When something was changed last.
pub(crate) const CHANGED: &str = "2026-11-20T18:00:02.000000Z";
