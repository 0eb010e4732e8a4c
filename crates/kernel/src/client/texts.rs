//! Text fields of a form as the types that the declaration wants: a browser, and `curl -F`, can
//! send nothing but texts beside a file. Only a text that does not fit as it stands becomes
//! anything else, so a `String` keeps every text.

use crate::task::{ReadRequestFn, RequestError};
use serde_json::{Map, Number, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The fields of a request that are no files, and which of them are texts of a form.
#[derive(Debug, Default)]
pub(super) struct Fields {
    pub(super) values: Map<String, Value>,
    texts: BTreeSet<String>,
    /// Texts of which another value was made, as they were sent.
    spelt: BTreeMap<String, String>,
}

impl Fields {
    /// Notes a text. `false`: the field is there already.
    pub(super) fn text(&mut self, name: &str, text: String) -> bool {
        self.texts.insert(name.to_owned());
        self.value(name, Value::String(text))
    }

    /// Notes a value. `false`: the field is there already.
    pub(super) fn value(&mut self, name: &str, value: Value) -> bool {
        self.values.insert(name.to_owned(), value).is_none()
    }

    /// The fields as they were sent.
    pub(super) fn sent(&self) -> Map<String, Value> {
        let mut sent = self.values.clone();
        for (name, text) in &self.spelt {
            sent.insert(name.clone(), Value::String(text.clone()));
        }
        sent
    }

    /// Reads the fields together with the files. A text that does not fit is tried as the number,
    /// flag or null that it spells, and stays that where it fits.
    pub(super) fn read(
        &mut self,
        read: ReadRequestFn,
        files: &Map<String, Value>,
    ) -> Result<Value, RequestError> {
        loop {
            let error = match self.try_read(read, files) {
                Ok(request) => return Ok(request),
                Err(error) => error,
            };
            let field = error.pointer.clone();
            let Some(Value::String(text)) = self
                .values
                .get(&field)
                .filter(|_| self.texts.remove(&field))
            else {
                return Err(error);
            };
            let (Some(spelt), text) = (spelt(text), text.clone()) else {
                return Err(error);
            };
            self.values.insert(field.clone(), spelt);
            match self.try_read(read, files) {
                Err(again) if again.pointer == field => {
                    self.values.insert(field, Value::String(text));
                    return Err(error);
                }
                // It fits now, whether another field does not.
                read => {
                    self.spelt.insert(field, text);
                    if read.is_ok() {
                        return read;
                    }
                }
            }
        }
    }

    fn try_read(
        &self,
        read: ReadRequestFn,
        files: &Map<String, Value>,
    ) -> Result<Value, RequestError> {
        let mut request = self.values.clone();
        request.extend(files.clone());
        read(Value::Object(request))
    }
}

/// The value that a text spells. `on` is what a browser sends for a box that is ticked; it sends an
/// empty text for a number that is left out.
fn spelt(text: &str) -> Option<Value> {
    match text {
        "true" | "on" => Some(Value::Bool(true)),
        "false" | "off" => Some(Value::Bool(false)),
        "" | "null" => Some(Value::Null),
        _ => serde_json::from_str::<Number>(text).ok().map(Value::Number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::read_request;
    use serde::{Deserialize, Serialize};
    use serde_json::json;

    #[derive(Serialize, Deserialize)]
    struct Asked {
        name: String,
        count: u32,
        share: f64,
        flag: bool,
        limit: Option<i64>,
        note: Option<String>,
        kind: Option<Kind>,
    }

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Kind {
        Plain,
    }

    fn read(changed: &[(&str, &str)]) -> Result<Value, RequestError> {
        let mut fields = Fields::default();
        let mut texts = vec![
            ("name", "5"),
            ("count", "7"),
            ("share", "0.5"),
            ("flag", "on"),
            ("limit", ""),
        ];
        texts.extend([("note", "null"), ("kind", "plain")]);
        for (name, text) in texts {
            let text = changed
                .iter()
                .find(|(changed, _)| *changed == name)
                .map_or(text, |(_, text)| text);
            assert!(fields.text(name, text.to_owned()));
        }
        fields.read(read_request::<Asked>, &Map::new())
    }

    #[test]
    fn a_text_becomes_what_the_type_wants_and_stays_a_text_where_it_wants_one() {
        let expected = json!({"name": "5", "count": 7, "share": 0.5, "flag": true, "limit": null, "note": "null",
                              "kind": "plain"});
        assert_eq!(read(&[]).unwrap(), expected);
        let given = [
            ("limit", "-3"),
            ("flag", "false"),
            ("kind", ""),
            ("share", "2"),
        ];
        let expected = json!({"name": "5", "count": 7, "share": 2.0, "flag": false, "limit": -3, "note": "null",
                              "kind": null});
        assert_eq!(read(&given).unwrap(), expected);
    }

    #[test]
    fn a_text_that_spells_nothing_that_fits_is_refused_as_a_text() {
        for (field, text) in [
            ("count", "x"),
            ("count", "-1"),
            ("count", ""),
            ("flag", "1"),
            ("flag", "yes"),
            ("limit", "1.5"),
        ] {
            let error = read(&[(field, text)]).unwrap_err();
            assert_eq!(error.pointer, field);
            assert!(
                error.message.contains(&format!("string \"{text}\"")),
                "{error}"
            );
        }
    }
}
