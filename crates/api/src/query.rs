//! The query string of a request, checked name by name: a misspelt filter must not quietly filter
//! nothing.

use crate::problem::{Refused, invalid};
use actix_web::{HttpRequest, web};

/// The parameters of a query.
#[derive(Debug)]
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    /// Those of a request, where each is among `known` and stands once.
    pub(crate) fn of(request: &HttpRequest, known: &[&str]) -> Result<Self, Refused> {
        let pairs = web::Query::<Vec<(String, String)>>::from_query(request.query_string())
            .map_err(|_| {
                invalid("the query string cannot be read: use name=value pairs joined by &")
            })?
            .into_inner();
        for (at, (name, _)) in pairs.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                let expected = if known.is_empty() {
                    "none".to_owned()
                } else {
                    known.join(", ")
                };
                return Err(invalid(format!(
                    "there is no such parameter here; expected: {expected}"
                ))
                .at(&**name));
            }
            if pairs[..at].iter().any(|(other, _)| other == name) {
                return Err(invalid("this parameter stands twice: send it once").at(&**name));
            }
        }
        Ok(Self(pairs))
    }

    /// The value of a parameter.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, value)| value.as_str())
    }
}
