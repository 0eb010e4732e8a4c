//! The OpenAPI document of the interface: from the table of routes, from what stands beside each route, and
//! from the declared task types. Must not answer a request.

mod document;
mod operation;
mod page;
mod problems;
mod sample;
mod schemas;
mod task_types;
mod words;

pub(crate) use document::{Document, Row};
pub(crate) use operation::{CACHE_CONTROL, Header, LOCATION, Operation, PerType, Reply, schema_of};
#[cfg(test)]
pub(crate) use operation::{Content, Json};
pub(crate) use page::{Part, page};
