//! What the declarations add to the document: one address for each task type, with the schemas of its
//! request and of its response. Must not know a task type.

use super::operation::PerType;
use super::sample::sample;
use super::schemas::Schemas;
use counterstep_contracts::http::BATCH_MOST;
use counterstep_steps::TaskType;
use counterstep_steps::task::SchemaFn;
use serde_json::{Map, Value, json};

/// The operation of a route for one task type. `general`: what is the same for all of them.
pub(super) fn operation(
    mut general: Value,
    task_type: &TaskType,
    per_type: PerType,
    schemas: &mut Schemas,
) -> Value {
    let decl = task_type.decl;
    let id = general["operationId"].as_str().unwrap_or_default();
    general["operationId"] = json!(format!("{id}{}", decl.name));
    let summary = general["summary"].as_str().unwrap_or_default();
    general["summary"] = json!(summary.replace("{type}", decl.name));
    let request = request(task_type, schemas);
    let example = sample(&request, schemas);
    general["requestBody"] = match per_type {
        PerType::Batch => {
            let content = batch(general["requestBody"].take(), &request, example);
            // What a type takes no part of has no labels or keys of its own.
            json!({ "required": true, "content": { "application/json": content } })
        }
        PerType::One if takes_files(task_type, &request, schemas) => {
            json!({ "required": true, "content": { "multipart/form-data": form(&request, schemas) } })
        }
        PerType::One => {
            let content = with_example(json!({ "schema": request }), example);
            json!({ "required": true, "content": { "application/json": content } })
        }
    };
    if per_type == PerType::One {
        with_response(&mut general, task_type, schemas);
    }
    general
}

/// What a declared type says of a body: its own schema, or any value.
fn declared(of: Option<SchemaFn>, name: &str, schema: impl FnOnce(SchemaFn) -> Value) -> Value {
    let open = || json!({ "description": format!("A `{name}`, which has no schema") });
    of.map_or_else(open, schema)
}

fn request(task_type: &TaskType, schemas: &mut Schemas) -> Value {
    let of = task_type.request_schema;
    declared(of, task_type.decl.request, |of| schemas.sent(of))
}

/// Whether a request comes as a form.
fn takes_files(task_type: &TaskType, request: &Value, schemas: &Schemas) -> bool {
    let text = schemas.resolved(request).to_string();
    task_type.begins_with_uploads() || text.contains("/UploadedFile\"")
}

/// The request as a form: each field a part. Text fields stand before files.
fn form(request: &Value, schemas: &Schemas) -> Value {
    let mut schema = schemas.copy_of_sent(request);
    let mut encoding = Map::new();
    let mut example = Map::new();
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (name, property) in properties.into_iter().flatten() {
        let value = without_null(property);
        let kind = schemas.resolved(&value);
        let is_file = value.to_string().contains("/UploadedFile\"");
        let is_text = matches!(
            kind.get("type").and_then(Value::as_str),
            Some("string" | "integer" | "number" | "boolean") | None
        );
        if is_file {
            let media_type = json!({ "contentType": "application/octet-stream" });
            encoding.insert(name.clone(), media_type);
        } else if !is_text {
            encoding.insert(name.clone(), json!({ "contentType": "application/json" }));
        }
        if let Some(value) = sample(&value, schemas) {
            example.insert(name.clone(), value);
        }
    }
    let content = json!({ "schema": schema, "encoding": encoding });
    with_example(content, Some(Value::Object(example)))
}

/// A form has no null: an empty text stands for it. Gives what else the field may be.
fn without_null(property: &mut Value) -> Value {
    let is_null = |it: &Value| *it == "null" || it.get("type").is_some_and(|kind| kind == "null");
    let mut of_value = property.clone();
    let mut has_null = false;
    for key in ["type", "anyOf"] {
        let Some(Value::Array(kinds)) = of_value.get_mut(key) else {
            continue;
        };
        has_null |= kinds.iter().any(is_null);
        kinds.retain(|it| !is_null(it));
        if kinds.len() == 1 {
            let only = kinds.remove(0);
            if key == "type" {
                of_value[key] = only;
            } else if let Some(fields) = of_value.as_object_mut() {
                fields.remove(key);
                fields.extend(only.as_object().cloned().unwrap_or_default());
            }
        }
    }
    if has_null {
        let none = json!({ "enum": ["", "null"], "description": "None" });
        *property = json!({ "anyOf": [of_value, none] });
    }
    of_value
}

fn batch(general: Value, request: &Value, example: Option<Value>) -> Value {
    let mut content = general["content"]["application/json"].clone();
    let mut items = content["schema"]["items"].take();
    items = json!({ "allOf": [items, { "properties": { "request": request } }] });
    content["schema"]["items"] = items;
    content["schema"]["minItems"] = json!(1);
    content["schema"]["maxItems"] = json!(BATCH_MOST);
    let example = example.map(|example| json!([{ "key": "o-1", "request": example }]));
    with_example(content, example)
}

fn with_example(mut content: Value, example: Option<Value>) -> Value {
    if let Some(fields) = content.as_object_mut() {
        fields.remove("example");
        fields.extend(example.map(|example| ("example".to_owned(), example)));
    }
    content
}

/// A task that is shown has the response of its type.
fn with_response(general: &mut Value, task_type: &TaskType, schemas: &mut Schemas) {
    let of = task_type.response_schema;
    let response = declared(of, task_type.decl.response, |of| schemas.answered(of));
    let content = &mut general["responses"]["200"]["content"]["application/json"];
    let task = content["schema"].take();
    content["schema"] = json!({ "allOf": [task, { "properties": { "response": response } }] });
    let mut example = content["example"].take();
    example["task_type"] = json!(task_type.decl.name);
    match sample(&response, schemas) {
        Some(response) => example["response"] = response,
        None => drop(example.as_object_mut().and_then(|it| it.remove("response"))),
    }
    content["example"] = example;
}

/// Narrows the body of a schedule down to the types that can have one: those without uploads.
pub(super) fn schedule(
    content: &mut Value,
    types: impl Iterator<Item = TaskType>,
    schemas: &mut Schemas,
) {
    let mut of_types = Vec::new();
    for task_type in types.filter(|it| !it.begins_with_uploads()) {
        let request = request(&task_type, schemas);
        let has_required = schemas.resolved(&request).get("required").is_some();
        let names = [task_type.decl.name.to_owned(), task_type.decl.route()];
        let mut of_type =
            json!({ "properties": { "type": { "enum": names }, "request": &request } });
        if has_required {
            of_type["required"] = json!(["request"]);
        }
        if of_types.is_empty() {
            content["example"]["type"] = json!(task_type.decl.route());
            content["example"]["request"] = sample(&request, schemas).unwrap_or_default();
        }
        of_types.push(of_type);
    }
    if of_types.is_empty() {
        return;
    }
    let is_text =
        |name: &str| json!({ "properties": { name: { "type": "string" } }, "required": [name] });
    // And not: null. Generators of clients look for a type of that name.
    let not = |name: &str| json!({ "not": is_text(name) });
    let when = json!([
        { "allOf": [is_text("cron"), not("run_at")] },
        { "allOf": [is_text("run_at"), not("cron"), not("zone")] },
    ]);
    let spec = content["schema"].take();
    content["schema"] = json!({ "allOf": [spec, { "anyOf": of_types }, { "oneOf": when }] });
}
