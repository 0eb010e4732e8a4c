//! The calls and types of the clients for other languages, generated from the OpenAPI document: each operation with `x-words`
//! becomes a method of its group. Must not know more than the document.

mod python;
mod typescript;

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What the methods by hand answer, beside what the generated ones do.
const BY_HAND: [&str; 4] = ["Accepted", "ResultLink", "AuditEvent", "ProgressEvent"];

/// Each generated file below `clients`, and its text.
#[must_use]
pub fn files(document: &Value) -> [(&'static str, String); 5] {
    let groups = groups(document);
    let types = types(document, &groups);
    [
        (
            "python/counterstep_client/_operations.py",
            python::operations(&groups, &python::PLAIN),
        ),
        (
            "python/counterstep_client/_async_operations.py",
            python::operations(&groups, &python::ASYNC),
        ),
        ("python/counterstep_client/_types.py", python::types(&types)),
        (
            "typescript/src/operations.js",
            typescript::operations(&groups),
        ),
        (
            "typescript/src/operations.d.ts",
            typescript::declarations(&groups, &types),
        ),
    ]
}

/// What a value is.
#[derive(Clone)]
enum Kind {
    Any,
    Null,
    Text,
    Number { whole: bool },
    Bool,
    Words(Vec<String>),
    Named(String),
    List(Box<Kind>),
    Map(Box<Kind>),
    OneOf(Vec<Kind>),
    Fields(Vec<Field>),
}

/// A field of an object, or a parameter.
#[derive(Clone)]
struct Field {
    name: String,
    about: String,
    kind: Kind,
    is_required: bool,
}

/// What is sent with a call, beside what its address names.
enum Sent {
    Nothing,
    Query(Vec<Field>),
    /// Its kind, and the fields where it is an object of them.
    Body(Kind, Option<Vec<Field>>),
}

enum Answer {
    Nothing,
    Value(Kind),
    /// A list that is read page by page: what its items are.
    Items(Kind),
}

struct Call {
    word: String,
    about: String,
    method: String,
    path: String,
    /// The names in its path.
    target: Vec<Field>,
    sent: Sent,
    /// Whether it takes `Idempotency-Key`.
    takes_key: bool,
    answer: Answer,
}

type Groups = BTreeMap<String, Vec<Call>>;
type Types = BTreeMap<String, (String, Kind)>;

fn text(of: &Value) -> String {
    of.as_str().unwrap_or_default().to_owned()
}

fn list(of: &Value) -> &[Value] {
    of.as_array().map_or(&[], Vec::as_slice)
}

fn entries(of: &Value) -> impl Iterator<Item = (&String, &Value)> {
    of.as_object().into_iter().flatten()
}

fn last(reference: &str) -> &str {
    reference.rsplit('/').next().unwrap_or_default()
}

fn kind(schema: &Value) -> Kind {
    let some = |of: &[Value]| Kind::OneOf(of.iter().map(kind).collect());
    if let Some(reference) = schema["$ref"].as_str() {
        return Kind::Named(last(reference).to_owned());
    }
    if let Some(text) = schema["const"].as_str() {
        return Kind::Words(vec![text.to_owned()]);
    }
    if schema["enum"].is_array() {
        return Kind::Words(list(&schema["enum"]).iter().map(text).collect());
    }
    if schema["properties"].is_object() {
        return Kind::Fields(fields(schema));
    }
    for choice in ["anyOf", "oneOf"] {
        if schema[choice].is_array() {
            return some(list(&schema[choice]));
        }
    }
    let of_type = |name: &str| match name {
        "null" => Kind::Null,
        "string" => Kind::Text,
        "integer" => Kind::Number { whole: true },
        "number" => Kind::Number { whole: false },
        "boolean" => Kind::Bool,
        "array" => Kind::List(Box::new(kind(&schema["items"]))),
        "object" => Kind::Map(Box::new(kind(&schema["additionalProperties"]))),
        _ => Kind::Any,
    };
    match (&schema["type"], list(&schema["allOf"])) {
        (Value::String(name), _) => of_type(name),
        (Value::Array(names), _) => {
            let names = names.iter().filter_map(Value::as_str);
            Kind::OneOf(names.map(of_type).collect())
        }
        (_, [first, ..]) => kind(first),
        _ => Kind::Any,
    }
}

/// Those that are required come first.
fn fields(schema: &Value) -> Vec<Field> {
    let required = list(&schema["required"]);
    let of = |(name, of): (&String, &Value)| Field {
        name: name.clone(),
        about: text(&of["description"]),
        kind: kind(of),
        is_required: required.iter().any(|it| it == name),
    };
    let mut fields: Vec<_> = entries(&schema["properties"]).map(of).collect();
    fields.sort_by_key(|it| !it.is_required);
    fields
}

/// A schema, or what it refers to; of several that hold at once the first, which has the fields.
fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    if let Some(reference) = schema["$ref"].as_str() {
        return &document["components"]["schemas"][last(reference)];
    }
    match list(&schema["allOf"]) {
        [first, ..] => resolved(document, first),
        [] => schema,
    }
}

fn groups(document: &Value) -> Groups {
    let mut groups = Groups::new();
    for (path, methods) in entries(&document["paths"]) {
        for (method, operation) in entries(methods) {
            if let [group, word] = list(&operation["x-words"]) {
                let call = call(document, path, method, text(word), operation);
                groups.entry(text(group)).or_default().push(call);
            }
        }
    }
    groups
}

fn call(document: &Value, path: &str, method: &str, word: String, operation: &Value) -> Call {
    let parameters = |place: &str| -> Vec<Field> {
        let of_place = |it: &&Value| it["in"] == place;
        let found = list(&operation["parameters"]).iter().filter(of_place);
        let field = |it: &Value| Field {
            name: text(&it["name"]),
            about: text(&it["description"]),
            kind: kind(&it["schema"]),
            is_required: it["required"] == true,
        };
        found.map(field).collect()
    };
    let json = |of: &Value| of["content"]["application/json"]["schema"].clone();
    let successes =
        || entries(&operation["responses"]).filter(|(status, _)| status.starts_with('2'));
    let mut answers: Vec<Value> = successes().map(|(_, it)| json(it)).collect();
    answers.dedup();
    let page = answers
        .first()
        .map(|it| &resolved(document, it)["properties"]);
    let items = page.filter(|it| it["next_cursor"].is_object() && it["items"].is_object());
    let answer = match (items, &answers[..]) {
        (Some(items), _) => Answer::Items(kind(&items["items"]["items"])),
        (None, [Value::Null]) => Answer::Nothing,
        (None, all) => match all {
            [one] => Answer::Value(kind(one)),
            several => Answer::Value(Kind::OneOf(several.iter().map(kind).collect())),
        },
    };
    let query = parameters("query").into_iter();
    let is_page = matches!(answer, Answer::Items(_));
    let query: Vec<_> = query.filter(|it| !is_page || it.name != "cursor").collect();
    let sent = if operation["requestBody"].is_object() {
        let schema = json(&operation["requestBody"]);
        // What it may be otherwise, and how its fields depend on each other, the API says.
        let whole = resolved(document, &schema);
        let is_plain = whole["properties"].is_object() && schema["allOf"].is_null();
        Sent::Body(kind(&schema), is_plain.then(|| fields(whole)))
    } else if query.is_empty() {
        Sent::Nothing
    } else {
        Sent::Query(query)
    };
    let headers = parameters("header");
    Call {
        word,
        about: about(operation),
        method: method.to_uppercase(),
        path: path.to_owned(),
        target: parameters("path"),
        sent,
        takes_key: headers.iter().any(|it| it.name == "Idempotency-Key"),
        answer,
    }
}

/// What it does, when it is answered, who may ask for it, and the refusals that are its own.
fn about(operation: &Value) -> String {
    let mut about = format!("{}.", text(&operation["summary"]));
    for (status, answer) in entries(&operation["responses"]) {
        if status.starts_with('2') {
            about.push_str(&format!(" {}.", text(&answer["description"])));
        }
    }
    about.push_str(&format!(" {}", text(&operation["description"])));
    let codes = ["404", "409"].map(|it| text(&operation["responses"][it]["$ref"]));
    let codes = codes.iter().flat_map(|it| last(it).split('.'));
    let codes: Vec<_> = codes
        .filter(|it| !it.is_empty())
        .map(|it| format!("`{it}`"))
        .collect();
    if !codes.is_empty() {
        about.push_str(&format!(" `Problem`: {}.", codes.join(", ")));
    }
    about.trim_end().replace("..", ".")
}

/// The types that the calls need, with those that these need.
fn types(document: &Value, groups: &Groups) -> Types {
    let mut names: BTreeSet<String> = BY_HAND.map(str::to_owned).into();
    for call in groups.values().flatten() {
        call.target
            .iter()
            .for_each(|it| named(&it.kind, &mut names));
        match &call.sent {
            Sent::Nothing => {}
            Sent::Query(fields) => fields.iter().for_each(|it| named(&it.kind, &mut names)),
            Sent::Body(kind, _) => named(kind, &mut names),
        }
        if let Answer::Value(kind) | Answer::Items(kind) = &call.answer {
            named(kind, &mut names);
        }
    }
    names.insert("ProblemCode".to_owned());
    let mut types = Types::new();
    while let Some(name) = names.pop_first() {
        let schema = &document["components"]["schemas"][&name];
        let kind = kind(schema);
        let mut inner = BTreeSet::new();
        named(&kind, &mut inner);
        types.insert(name, (text(&schema["description"]), kind));
        names.extend(inner.into_iter().filter(|it| !types.contains_key(it)));
    }
    types
}

fn named(kind: &Kind, names: &mut BTreeSet<String>) {
    match kind {
        Kind::Named(name) => {
            names.insert(name.clone());
        }
        Kind::List(of) | Kind::Map(of) => named(of, names),
        Kind::OneOf(some) => some.iter().for_each(|it| named(it, names)),
        Kind::Fields(fields) => fields.iter().for_each(|it| named(&it.kind, names)),
        Kind::Any | Kind::Null | Kind::Text | Kind::Number { .. } | Kind::Bool | Kind::Words(_) => {
        }
    }
}

/// Words as a name: `run-again` as `RunAgain`.
fn capitalized(words: &str) -> String {
    let parts = words.split(['-', '_']).map(|it| {
        let (first, rest) = it.split_at(it.len().min(1));
        first.to_uppercase() + rest
    });
    parts.collect()
}

/// A text in lines that fit beside an indentation.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is a line");
        if line.is_empty() {
            word.clone_into(line);
        } else if line.len() + word.len() < width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}
