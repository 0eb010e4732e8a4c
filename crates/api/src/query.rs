//! The query string of a request, checked name by name: a misspelt filter must not quietly filter
//! nothing.

use actix_web::{HttpRequest, web};
use counterstep_contracts::operation::{Declared, QueryParam};
use counterstep_operations::{Refused, invalid};
use serde_json::{Map, Value};

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

/// The query of a declared operation.
#[derive(Debug)]
pub(crate) struct DeclaredQuery(Option<Vec<QueryParam>>);

impl DeclaredQuery {
    pub(crate) fn of(declared: &Declared) -> Self {
        Self(declared.query.map(|of| of()))
    }

    /// What a request has of it, as the operation's input; null, where it takes none.
    pub(crate) fn read(&self, request: &HttpRequest) -> Result<Value, Refused> {
        let Some(of) = &self.0 else {
            Params::of(request, &[])?;
            return Ok(Value::Null);
        };
        let names = |repeats: bool| {
            let of_kind = of.iter().filter(move |it| it.repeats() == repeats);
            of_kind.map(|it| &*it.name).collect::<Vec<_>>()
        };
        let params = Params::of_list(request, &names(false), &names(true))?;
        let mut input = Map::new();
        // Numbers first: a page of no size is refused before what it would hold.
        let is_number = |it: &&QueryParam| it.of_one()["type"] == "integer";
        let (numbers, others): (Vec<_>, Vec<_>) = of.iter().partition(is_number);
        for param in numbers.into_iter().chain(others) {
            let mut values = Vec::new();
            for text in params.all(&param.name) {
                let value = value(param.of_one(), text);
                values.push(
                    value.map_err(|is| {
                        invalid(format!("`{}` is {is}", param.name)).at(&*param.name)
                    })?,
                );
            }
            if param.repeats() {
                input.insert(param.name.clone(), Value::Array(values));
            } else if let Some(value) = values.pop() {
                input.insert(param.name.clone(), value);
            }
        }
        Ok(Value::Object(input))
    }
}

/// A value of this schema; else what it is to be. What a text has to be the operation knows.
fn value(schema: &Value, text: &str) -> Result<Value, String> {
    if schema["type"] == "integer" {
        let [least, most] = ["minimum", "maximum"].map(|it| schema[it].as_u64());
        let (least, most) = (least.unwrap_or(0), most.unwrap_or(u64::MAX));
        let number = text.parse().ok().filter(|it| (least..=most).contains(it));
        return number
            .map(Value::from)
            .ok_or_else(|| format!("a whole number from {least} to {most}"));
    }
    let Some(words) = schema["enum"].as_array() else {
        return Ok(Value::from(text));
    };
    let mut words = words.iter().filter_map(Value::as_str);
    match words.clone().any(|it| it == text) {
        true => Ok(Value::from(text)),
        false => {
            let first = words.next().unwrap_or_default().to_owned();
            let all = words.fold(first, |all, word| format!("{all}, {word}"));
            Err(format!("one of {all}"))
        }
    }
}
