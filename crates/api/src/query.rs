//! The query string of a request, checked name by name: a misspelt filter must not quietly filter
//! nothing.

use actix_web::{HttpRequest, web};
use counterstep_operations::{Refused, invalid};

/// The parameters of a query.
#[derive(Debug)]
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    /// Those of a request, where each is among `known` and stands once.
    pub(crate) fn of(request: &HttpRequest, known: &[&str]) -> Result<Self, Refused> {
        Self::of_list(request, known, &[])
    }

    /// The same with others that may stand there several times.
    pub(crate) fn of_list(
        request: &HttpRequest,
        known: &[&str],
        repeatable: &[&str],
    ) -> Result<Self, Refused> {
        let pairs = web::Query::<Vec<(String, String)>>::from_query(request.query_string())
            .map_err(|_| {
                invalid("the query string cannot be read: use name=value pairs joined by &")
            })?
            .into_inner();
        for (at, (name, _)) in pairs.iter().enumerate() {
            if repeatable.contains(&name.as_str()) {
                continue;
            }
            if !known.contains(&name.as_str()) {
                let expected = match [known, repeatable].concat() {
                    none if none.is_empty() => "none".to_owned(),
                    names => names.join(", "),
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

    /// The values of a parameter that may be repeated.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let of_name = self.0.iter().filter(move |(n, _)| n == name);
        of_name.map(|(_, value)| value.as_str())
    }

    /// The value of a parameter.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, value)| value.as_str())
    }
}
