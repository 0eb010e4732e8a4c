//! A first request to a task type, made of the OpenAPI document: what a newcomer copies. Must not send it.

use crate::commands::quoted;
use serde_json::{Map, Value, json};

/// A line for a shell that submits a task of this route with `curl`; `None`: the document has no such route.
///
/// A field that takes a file has the file `README.md`, which is to be replaced.
#[must_use]
pub fn curl(document: &Value, server: &str, route: &str) -> Option<String> {
    let path = format!("/api/tasks/{route}");
    let content = &document["paths"].get(&path)?["post"]["requestBody"]["content"];
    let url = format!("{server}{path}");
    if let Some(form) = content.get("multipart/form-data") {
        let form = resolved(document, &form["schema"]);
        let fields = form["properties"].as_object()?.iter();
        // Texts go before files.
        let (files, texts): (Vec<_>, Vec<_>) = fields.partition(|(_, of)| is_file(document, of));
        let texts = texts.into_iter().map(|(name, of)| {
            let value = match sample(document, of) {
                Value::String(text) if text.is_empty() => "first".to_owned(),
                Value::String(text) => text,
                other => other.to_string(),
            };
            format!("--form-string {}", quoted(&format!("{name}={value}")))
        });
        let files = files.into_iter();
        let files = files.map(|(name, _)| format!("-F {}", quoted(&format!("{name}=@README.md"))));
        let parts: Vec<_> = texts.chain(files).collect();
        return Some(format!("curl {} {url}", parts.join(" ")));
    }
    let json = &content["application/json"];
    let body = match &json["example"] {
        Value::Null => sample(document, &json["schema"]),
        example => example.clone(),
    };
    Some(format!(
        "curl -H 'content-type: application/json' -d {} {url}",
        quoted(&body.to_string())
    ))
}

/// Whether a field of a form takes a file, or several.
#[must_use]
pub fn is_file(document: &Value, of: &Value) -> bool {
    let one = |of: &Value| {
        let of = resolved(document, of);
        of["format"] == "binary"
            || of["contentMediaType"].is_string()
            || of["contentEncoding"] == "binary"
    };
    one(of) || one(&resolved(document, of)["items"])
}

/// What a schema refers to, or itself.
#[must_use]
pub fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    let reference = schema["$ref"].as_str().and_then(|it| it.strip_prefix('#'));
    let found = reference.and_then(|pointer| document.pointer(pointer));
    found.unwrap_or(schema)
}

/// A value of a schema of this document, to begin with.
#[must_use]
pub fn sample(document: &Value, schema: &Value) -> Value {
    sample_at(document, schema, 0)
}

fn sample_at(document: &Value, schema: &Value, depth: u32) -> Value {
    let schema = resolved(document, schema);
    if depth > 8 {
        return Value::Null;
    }
    for given in ["example", "default", "const"] {
        if let Some(value) = schema.get(given) {
            return value.clone();
        }
    }
    if let Some(first) = schema["enum"].as_array().and_then(|all| all.first()) {
        return first.clone();
    }
    let kind = schema["type"]
        .as_str()
        .or_else(|| schema["type"][0].as_str());
    match kind {
        Some("object") => {
            let properties = schema["properties"].as_object();
            let fields = properties.into_iter().flatten();
            let fields =
                fields.map(|(name, of)| (name.clone(), sample_at(document, of, depth + 1)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        Some("array") => json!([]),
        Some("string") => json!(""),
        Some("integer" | "number") => json!(schema["minimum"].as_i64().unwrap_or(1)),
        Some("boolean") => json!(false),
        Some(_) => Value::Null,
        None => {
            let all = ["anyOf", "oneOf", "allOf"].map(|choice| schema[choice].as_array());
            let first = all.into_iter().flatten().flatten().next();
            first.map_or(Value::Null, |first| sample_at(document, first, depth + 1))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_request_has_a_value_for_each_field() {
        let document = json!({
            "paths": {
                "/api/tasks/book-seat": { "post": { "requestBody": { "content": {
                    "application/json": { "schema": { "$ref": "#/components/schemas/Order" } },
                } } } },
                "/api/tasks/zip": { "post": { "requestBody": { "content": {
                    "multipart/form-data": { "schema": { "type": "object", "properties": {
                        "files": { "type": "array", "items": { "$ref": "#/components/schemas/File" } },
                        "name": { "anyOf": [{ "$ref": "#/components/schemas/Name" }, { "type": "null" }] },
                    } } },
                } } } },
            },
            "components": { "schemas": { "File": { "type": "string", "format": "binary" }, "Name": {
                "type": "string", "allOf": [{ "pattern": "^[^/]+$" }],
            }, "Order": { "type": "object", "properties": {
                "seat": { "type": "string", "default": "it's 12A" },
                "count": { "type": "integer", "minimum": 2 },
                "meal": { "enum": ["none", "rice"] },
            } } } },
        });
        let of = |route| curl(&document, "http://127.0.0.1:8080", route);
        assert_eq!(
            of("book-seat").as_deref(),
            Some(
                r#"curl -H 'content-type: application/json' -d '{"count":2,"meal":"none","seat":"it'\''s 12A"}' http://127.0.0.1:8080/api/tasks/book-seat"#
            )
        );
        assert_eq!(
            of("zip").as_deref(),
            Some(
                "curl --form-string name=first -F files=@README.md http://127.0.0.1:8080/api/tasks/zip"
            )
        );
        assert_eq!(of("unknown"), None);
    }
}
