//! The query of an operation that reads, as data: the fields of its input are the parameters of its address. Must not read a
//! request.

use super::Operation;
use crate::TaskStatus;
use crate::cause::FAILURE_CLASSES;
use crate::labels::{MOST_LABELS, pair_form};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::fmt;

/// A parameter of a query.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryParam {
    /// Its name, as the input has the field.
    pub name: String,
    /// What it is, in a line.
    pub about: String,
    /// The schema of one value; where it repeats, an array of them.
    pub schema: Value,
    /// A value.
    pub example: Value,
}

impl QueryParam {
    /// Whether it may stand in a query several times.
    #[must_use]
    pub fn repeats(&self) -> bool {
        self.schema["type"] == "array"
    }

    /// The schema of one value.
    #[must_use]
    pub fn of_one(&self) -> &Value {
        match self.repeats() {
            true => &self.schema["items"],
            false => &self.schema,
        }
    }
}

/// Number of items of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit(pub u32);

impl Limit {
    /// The largest page.
    pub const MOST: Self = Self(200);
}

impl Default for Limit {
    fn default() -> Self {
        Self(50)
    }
}

impl JsonSchema for Limit {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Limit".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": 1, "maximum": Self::MOST.0, "default": Self::default().0 })
    }
}

/// A text of a query, and its schema. What it has to be the function of the operation knows.
macro_rules! query_text {
    ($(#[$doc:meta])+ $name:ident, $schema:tt) => {
        $(#[$doc])+
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        pub struct $name(pub String);

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    };
}

query_text!(
    /// Where a page begins: what the answer with the page before it has named.
    Cursor,
    { "type": "string", "format": "cursor" }
);

query_text!(
    /// A time in RFC 3339.
    Time,
    { "type": "string", "format": "date-time" }
);

/// Tasks that wait for a person are in one of these states.
pub(super) fn parked(_: &mut SchemaGenerator) -> Schema {
    let all = TaskStatus::ALL.iter().filter(|it| it.is_parked());
    let all: Vec<_> = all.map(|it| it.as_str()).collect();
    json_schema!({ "type": "array", "items": { "type": "string", "enum": all } })
}

/// The schema of labels, each as `name=value`.
#[must_use]
pub fn labels_schema() -> Value {
    json!({
        "type": "array",
        "maxItems": MOST_LABELS,
        "uniqueItems": true,
        "items": { "type": "string", "pattern": pair_form() },
    })
}

pub(super) fn labels(_: &mut SchemaGenerator) -> Schema {
    Schema::try_from(labels_schema()).unwrap_or_default()
}

/// One label, as `name=value`.
pub(super) fn label(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "pattern": pair_form() })
}

/// The classes of failures.
pub(super) fn failure_classes(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": FAILURE_CLASSES })
}

/// The parameters of an operation that reads, in the order of its input's fields.
pub(super) fn of<O: Operation>() -> Vec<QueryParam> {
    let schema = super::Body::of_input::<O>().whole_schema();
    let example = serde_json::to_string(&O::example().0).unwrap_or_default();
    let Ordered(fields) = serde_json::from_str(&example).unwrap_or_default();
    let param = |(name, example): (String, Value)| {
        let mut schema = schema["properties"][&name].clone();
        let about = schema["description"].as_str().unwrap_or_default();
        let about = about.split_whitespace().collect::<Vec<_>>().join(" ");
        plain(&mut schema);
        QueryParam {
            about: about.trim_end_matches('.').to_owned(),
            name,
            schema,
            example,
        }
    };
    fields.into_iter().map(param).collect()
}

/// A schema of a value that is there, in the words that parameters have.
fn plain(schema: &mut Value) {
    let is_null = |it: &Value| it == "null" || it["type"] == "null";
    for choice in ["anyOf", "oneOf"] {
        let Some(choices) = schema[choice].as_array() else {
            continue;
        };
        let others: Vec<_> = choices.iter().filter(|it| !is_null(it)).collect();
        let words: Vec<_> = others.iter().map(|it| it["const"].clone()).collect();
        *schema = match others[..] {
            [one] if one["const"].is_null() => one.clone(),
            _ => json!({ "type": "string", "enum": words }),
        };
    }
    let Some(fields) = schema.as_object_mut() else {
        return;
    };
    if let Some(kinds) = fields["type"].as_array_mut() {
        kinds.retain(|it| !is_null(it));
        if let [kind] = &kinds[..] {
            fields["type"] = kind.clone();
        }
    }
    fields.remove("description");
    let is_none = |it: &Value| it.is_null() || it == &json!([]);
    if fields.get("default").is_some_and(is_none) {
        fields.remove("default");
    }
    // A number has its limits; the width of its type is not for those who send it.
    let of_width = |it: &Value| it.as_str().is_some_and(|it| it.starts_with("uint"));
    if fields.get("format").is_some_and(of_width) {
        fields.remove("format");
    }
    if let Some(items) = fields.get_mut("items") {
        plain(items);
    }
}

/// The fields of an object in their order, which a [`Map`] forgets.
#[derive(Default)]
struct Ordered(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Ordered;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ordered, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Ordered(fields))
            }
        }
        from.deserialize_map(Fields)
    }
}

/// An address with the fields of an input as its query.
#[must_use]
pub fn with_query(path: &str, fields: &Map<String, Value>) -> String {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let pairs = fields.iter().flat_map(|(name, value)| {
        let values = match value {
            Value::Array(values) => values.iter().map(text).collect(),
            one => vec![text(one)],
        };
        let pair = |value: String| format!("{name}={}", crate::commands::segment(&value));
        values.into_iter().map(pair).collect::<Vec<_>>()
    });
    let pairs: Vec<_> = pairs.collect();
    match pairs.is_empty() {
        true => path.to_owned(),
        false => format!("{path}?{}", pairs.join("&")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Labels;
    use crate::operation::ALL;
    use std::collections::BTreeSet;

    #[test]
    fn each_field_of_a_query_is_a_parameter_with_an_example_and_one_plain_kind() {
        for it in ALL {
            let Some(query) = it.query else { continue };
            let id = it.about.id;
            let schema = it.input.expect("an input").whole_schema();
            let fields = schema["properties"].as_object().expect("fields");
            let fields: BTreeSet<_> = fields.keys().cloned().collect();
            let params = query();
            let names: BTreeSet<_> = params.iter().map(|it| it.name.clone()).collect();
            assert_eq!(names, fields, "{id}: the example has each field");
            assert_eq!(schema["required"], Value::Null, "{id}");
            for param in params {
                let kind = &param.of_one()["type"];
                assert!(kind == "string" || kind == "integer", "{id}: {param:?}");
                assert!(!param.about.is_empty(), "{id}: {param:?}");
            }
        }
    }

    #[test]
    fn a_list_that_takes_a_cursor_names_one_in_its_answer() {
        for it in ALL {
            let takes = |of: fn() -> Vec<QueryParam>| of().iter().any(|it| it.name == "cursor");
            let answer = it.output.map(|it| it.whole_schema()["properties"].clone());
            let answer = answer.unwrap_or_default();
            let mut names = ["next_cursor", "cursor"].iter();
            let names = names.any(|it| answer[it].is_object());
            assert!(names || !it.query.is_some_and(takes), "{}", it.about.id);
        }
    }

    #[test]
    fn the_form_of_a_label_takes_what_the_rule_takes() {
        let labels = labels_schema();
        let form = labels["items"]["pattern"].as_str().expect("a pattern");
        for (name, value) in [(64, 256), (64, 257), (65, 256)] {
            let (name, value) = ("n".repeat(name), "v".repeat(value));
            let is_taken = Labels::new().look_for(&name, &value).is_ok();
            // The pattern has the longest of each in braces.
            let fits = form.contains(&format!("{{0,{}}}=", name.len() - 1))
                && form.ends_with(&format!("{{1,{}}}$", value.len()));
            assert_eq!(fits, is_taken, "{} {}: {form}", name.len(), value.len());
        }
    }

    #[test]
    fn a_query_has_each_value_in_its_own_pair() {
        let fields = json!({ "status": ["running", "a&b"], "limit": 3, "type": "x y" });
        let fields = fields.as_object().expect("fields");
        let address = with_query("/api/tasks", fields);
        assert_eq!(
            address,
            "/api/tasks?limit=3&status=running&status=a%26b&type=x%20y"
        );
        assert_eq!(with_query("/api/tasks", &Map::new()), "/api/tasks");
    }
}
