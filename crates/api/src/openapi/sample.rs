//! An example of a schema, for a declared type that brings none. Must not be shown where a value could
//! break a rule that it does not read.

use super::schemas::Schemas;
use serde_json::{Map, Value, json};

/// Maximum depth of types that contain themselves.
const DEEPEST: u32 = 8;

/// The example that the schema brings along, or one that is made of it; `None`: it has rules beyond those
/// that are read here.
pub(super) fn sample(schema: &Value, schemas: &Schemas) -> Option<Value> {
    within(schema, schemas, DEEPEST)
}

fn within(schema: &Value, schemas: &Schemas, left: u32) -> Option<Value> {
    let left = left.checked_sub(1)?;
    let schema = schemas.resolved(schema);
    let given = schema
        .pointer("/examples/0")
        .or_else(|| schema.get("example"));
    let fixed = schema.get("default").or_else(|| schema.get("const"));
    let first = schema.pointer("/enum/0");
    if let Some(value) = given.or(fixed).or(first) {
        return Some(value.clone());
    }
    for key in ["oneOf", "anyOf", "allOf"] {
        if let Some(variants) = schema.get(key).and_then(Value::as_array) {
            if schema.get("properties").is_some() || (key == "allOf" && variants.len() > 1) {
                return None;
            }
            return variants.iter().find_map(|it| within(it, schemas, left));
        }
    }
    let kind = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.first(),
        kind => kind,
    };
    match kind.and_then(Value::as_str) {
        Some("object") => object(schema, schemas, left),
        Some("array") => {
            let items = schema.get("items").map(|it| within(it, schemas, left));
            Some(Value::Array(items.flatten().into_iter().collect()))
        }
        Some("string") => text(schema),
        Some("integer" | "number") => {
            let least = schema.get("minimum").filter(|it| it.as_f64() > Some(0.0));
            Some(least.cloned().unwrap_or_else(|| json!(1)))
        }
        Some("boolean") => Some(json!(true)),
        Some("null") => Some(Value::Null),
        _ => Some(json!({})),
    }
}

fn object(schema: &Value, schemas: &Schemas, left: u32) -> Option<Value> {
    let mut fields = Map::new();
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|all| all.iter().any(|it| it == name));
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        match within(property, schemas, left) {
            Some(value) => drop(fields.insert(name.clone(), value)),
            None if is_required(name) => return None,
            None => {}
        }
    }
    Some(Value::Object(fields))
}

fn text(schema: &Value) -> Option<Value> {
    let text = match schema.get("format").and_then(Value::as_str) {
        Some("date-time") => "2026-11-20T18:00:00Z",
        Some("uuid") => "01930d2c-6c4b-7d5e-8f00-0123456789ab",
        Some("binary") => "(the bytes of a file)",
        Some(_) => return None,
        None => "text",
    };
    let has_rule = ["pattern", "minLength", "maxLength"]
        .iter()
        .any(|it| schema.get(it).is_some());
    (!has_rule).then(|| json!(text))
}
