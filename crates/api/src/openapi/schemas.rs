//! The schemas that the document refers to: of what is sent and of what is answered, which may differ for
//! one type. Must not know any type.

use counterstep_steps::task::SchemaFn;
use schemars::generate::SchemaSettings;
use schemars::transform::transform_subschemas;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// Where references to what is sent lead until [`Schemas::complete`] has named it.
const SENT: &str = "#/components/sent/";
const SCHEMAS: &str = "#/components/schemas/";

/// The schemas of a document.
pub(super) struct Schemas {
    sent: SchemaGenerator,
    answered: SchemaGenerator,
}

impl Schemas {
    pub(super) fn new() -> Self {
        let at = |path: &str| {
            SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = path.trim_end_matches('/')[1..].to_owned().into();
                settings.meta_schema = None;
            })
        };
        let sent = at(SENT).for_deserialize().with_transform(tidied);
        Self {
            sent: sent.with_transform(closed).into_generator(),
            answered: at(SCHEMAS)
                .for_serialize()
                .with_transform(tidied)
                .into_generator(),
        }
    }

    /// The schema of a body that is sent.
    pub(super) fn sent(&mut self, of: SchemaFn) -> Value {
        written(of(&mut self.sent))
    }

    /// The schema of a body that is answered.
    pub(super) fn answered(&mut self, of: SchemaFn) -> Value {
        written(of(&mut self.answered))
    }

    /// A schema with what it refers to, as long as the document is being made.
    pub(super) fn resolved<'a>(&'a self, schema: &'a Value) -> &'a Value {
        let Some(reference) = schema.get("$ref").and_then(Value::as_str) else {
            return schema;
        };
        let sent = reference.strip_prefix(SENT);
        let found = match sent {
            Some(name) => self.sent.definitions().get(name),
            None => {
                let name = reference.strip_prefix(SCHEMAS).unwrap_or(reference);
                self.answered.definitions().get(name)
            }
        };
        found.unwrap_or(schema)
    }

    /// A copy of a schema that is sent, in the form in which the document has it.
    pub(super) fn copy_of_sent(&self, schema: &Value) -> Value {
        let Ok(mut copy) = Schema::try_from(self.resolved(schema).clone()) else {
            return Value::Bool(true);
        };
        tidied(&mut copy);
        closed(&mut copy);
        copy.to_value()
    }

    /// Adds all schemas that the document refers to. One that is sent and answered in two forms gets two
    /// names.
    pub(super) fn complete(mut self, document: &mut Value) {
        let mut schemas = self.answered.take_definitions(true);
        let sent = self.sent.take_definitions(true);
        let names: Map<String, Value> = sent
            .iter()
            .map(|(name, schema)| (name.clone(), json!(name_of(name, schema, &schemas, &sent))))
            .collect();
        for (name, schema) in sent {
            if let Some(Value::String(name)) = names.get(&name) {
                schemas.insert(name.clone(), schema);
            }
        }
        document["components"]["schemas"] = Value::Object(schemas);
        refer(document, &names);
    }
}

/// Any value is `{}`: some tools of OpenAPI do not know `true`.
fn written(schema: Schema) -> Value {
    match schema.to_value() {
        Value::Bool(true) => json!({}),
        schema => schema,
    }
}

/// The name of what is sent.
fn name_of(
    name: &str,
    schema: &Value,
    answered: &Map<String, Value>,
    sent: &Map<String, Value>,
) -> String {
    // What refers to others may mean others by the same words.
    let is_same = |other: &Value| other == schema && !schema.to_string().contains("\"$ref\"");
    if answered.get(name).is_none_or(is_same) {
        return name.to_owned();
    }
    let mut free = format!("{name}Input");
    while answered.contains_key(&free) || sent.contains_key(&free) {
        free.push('_');
    }
    free
}

fn refer(value: &mut Value, names: &Map<String, Value>) {
    match value {
        Value::Object(fields) => {
            for (key, inner) in fields {
                let sent = inner.as_str().filter(|_| key == "$ref");
                let sent = sent.and_then(|reference| reference.strip_prefix(SENT));
                match sent
                    .and_then(|name| names.get(name))
                    .and_then(Value::as_str)
                {
                    Some(name) => *inner = json!(format!("{SCHEMAS}{name}")),
                    None => refer(inner, names),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|inner| refer(inner, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Texts in one line and without links into the code, the limits of numbers that the format alone names, and lists of
/// words as the tools of OpenAPI know them.
fn tidied(schema: &mut Schema) {
    words(schema);
    if schema.get("items") == Some(&json!(true)) {
        schema.insert("items".to_owned(), json!({}));
    }
    // What a field is taken for where it is missing. No generator writes an object in its language, and some fail.
    if schema.get("default").is_some_and(Value::is_object) {
        schema.remove("default");
    }
    if let Some(Value::String(text)) = schema.get_mut("description") {
        let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        *text = one_line.replace("[`", "`").replace("`]", "`");
    }
    let limits = match schema.get("format").and_then(Value::as_str) {
        Some("uint32") => Some((json!(0), json!(u32::MAX))),
        Some("uint64" | "uint") => Some((json!(0), json!(u64::MAX))),
        Some("int32") => Some((json!(i32::MIN), json!(i32::MAX))),
        Some("int64" | "int") => Some((json!(i64::MIN), json!(i64::MAX))),
        _ => None,
    };
    if let Some((least, most)) = limits {
        for (key, limit) in [("minimum", least), ("maximum", most)] {
            if schema.get(key).is_none() {
                schema.insert(key.to_owned(), limit);
            }
        }
    }
    transform_subschemas(&mut tidied, schema);
}

/// A choice of texts is an `enum`, with what each means in its description: generators of clients make one type of it, and of
/// `oneOf` a type for each text.
fn words(schema: &mut Schema) {
    let Some(Value::Array(choices)) = schema.get("oneOf") else {
        return;
    };
    let texts: Option<Vec<Value>> = choices
        .iter()
        .map(|it| it.get("const").filter(|text| text.is_string()).cloned())
        .collect();
    let Some(texts) = texts else {
        return;
    };
    let meanings = choices.iter().filter_map(|it| {
        let (text, about) = (it["const"].as_str()?, it.get("description")?.as_str()?);
        Some(format!("`{text}`: {about}"))
    });
    let about = schema.get("description").and_then(Value::as_str);
    let about = about.map(str::to_owned).into_iter().chain(meanings);
    let about = about.collect::<Vec<_>>().join(" ");
    schema.remove("oneOf");
    schema.insert("type".to_owned(), json!("string"));
    schema.insert("enum".to_owned(), json!(texts));
    if !about.is_empty() {
        schema.insert("description".to_owned(), json!(about));
    }
}

/// No field that a type does not know is accepted.
fn closed(schema: &mut Schema) {
    let has = |key: &str| schema.get(key).is_some();
    let is_composed = ["oneOf", "anyOf", "allOf", "$ref"].iter().any(|it| has(it));
    let is_open =
        has("properties") && !has("additionalProperties") && !has("unevaluatedProperties");
    if is_open && is_composed {
        schema.insert("unevaluatedProperties".to_owned(), json!(false));
    } else {
        if is_open {
            schema.insert("additionalProperties".to_owned(), json!(false));
        }
        transform_subschemas(&mut closed, schema);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Order {
        /// How
        /// many.
        #[serde(default)]
        copies: u32,
        side: Side,
    }

    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    enum Side {
        /// That of the
        /// heart.
        Left,
        /// The other.
        Right,
    }

    #[test]
    fn a_type_that_is_sent_in_another_form_than_it_is_answered_has_two_names() {
        let mut schemas = Schemas::new();
        let of = |generator: &mut SchemaGenerator| generator.subschema_for::<Order>();
        let mut document = json!({ "sent": schemas.sent(of), "answered": schemas.answered(of) });
        schemas.complete(&mut document);
        assert_eq!(document["answered"]["$ref"], "#/components/schemas/Order");
        assert_eq!(document["sent"]["$ref"], "#/components/schemas/OrderInput");
        let schemas = &document["components"]["schemas"];
        let (sent, answered) = (&schemas["OrderInput"], &schemas["Order"]);
        assert_eq!(sent["required"], json!(["side"]));
        assert_eq!(sent["additionalProperties"], false);
        assert_eq!(answered["required"], json!(["copies", "side"]));
        assert_eq!(answered["additionalProperties"], Value::Null);
        assert_eq!(
            sent["properties"]["side"]["$ref"],
            "#/components/schemas/Side"
        );
        let copies = &sent["properties"]["copies"];
        assert_eq!(copies["maximum"], u32::MAX);
        assert_eq!(copies["description"], "How many.");
        assert_eq!(
            schemas["Side"],
            json!({
                "type": "string",
                "enum": ["left", "right"],
                "description": "`left`: That of the heart. `right`: The other.",
            })
        );
        assert_eq!(schemas.as_object().map(Map::len), Some(3));
    }
}
