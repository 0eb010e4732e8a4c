//! What steps need from outside, as traits. Adapters implement them; nothing in here knows a
//! technology.

mod hints;
mod objects;
mod outside;
mod scratch;

pub use hints::{HintError, Hints};
pub use objects::{ByteStream, Listed, ObjectError, ObjectInfo, ObjectPage, Objects};
pub use outside::{Method, NoServices, Outside, OutsideAnswer, OutsideError, OutsideRequest};
pub use scratch::Scratch;
