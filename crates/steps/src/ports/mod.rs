//! What steps need from outside, as traits. Adapters implement them; nothing in here knows a
//! technology.

mod hints;
mod http_services;
mod objects;
mod scratch;

pub use hints::{HintError, Hints};
pub use http_services::{
    HttpServices, Method, NoServices, ServiceAnswer, ServiceError, ServiceRequest,
};
pub use objects::{ByteStream, Listed, ObjectError, ObjectInfo, ObjectPage, Objects};
pub use scratch::Scratch;
