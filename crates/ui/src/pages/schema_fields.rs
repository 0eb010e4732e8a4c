//! The part of a form that has a value of a declared type: a field for each field of an object, one field of a text, a number or a
//! choice, or JSON where the schema is of another kind. Must not check a value against its schema: the interface does, and names the
//! field.

use super::confirm::Form;
use counterstep_contracts::ProblemCode;
use counterstep_contracts::first_request::resolved;
use maud::{Markup, html};
use serde_json::{Map, Value};

/// What a schema may have that a form of fields cannot keep to.
const COMPOSED: [&str; 5] = ["oneOf", "anyOf", "allOf", "not", "patternProperties"];

/// A declared type.
#[derive(Clone, Copy)]
pub(super) struct Typed<'a> {
    /// What the references of its schema lead into.
    pub(super) document: &'a Value,
    pub(super) schema: &'a Value,
    /// A value of it, to begin with where it is entered as JSON. `None`: nothing is preset, defaults included, and what was left empty
    /// is refused.
    pub(super) example: Option<&'a Value>,
}

impl<'a> Typed<'a> {
    /// Of a field of it.
    const fn of(self, schema: &'a Value) -> Self {
        Self { schema, ..self }
    }

    /// Its schema without a reference, and without the choice of null.
    fn resolved(self) -> &'a Value {
        let of = resolved(self.document, self.schema);
        let choices = of["anyOf"].as_array().into_iter().flatten();
        let mut values = choices.filter(|it| it["type"] != "null");
        match (values.next(), values.next()) {
            (Some(only), None) if of.get("properties").is_none() => resolved(self.document, only),
            _ => of,
        }
    }

    /// Whether null is a value of it.
    fn allows_null(self) -> bool {
        let is_null = |of: &Value| {
            let has = |all: &Value, it: &Value| all.as_array().is_some_and(|all| all.contains(it));
            let null = Value::from("null");
            of["type"] == null || has(&of["type"], &null) || has(&of["enum"], &Value::Null)
        };
        let of = resolved(self.document, self.schema);
        let choices = ["anyOf", "oneOf"].map(|key| of[key].as_array());
        is_null(of) || choices.into_iter().flatten().flatten().any(is_null)
    }

    /// What holds where nothing is entered.
    fn default(self) -> &'a Value {
        let own = self.schema.get("default");
        own.unwrap_or_else(|| &self.resolved()["default"])
    }

    /// Its fields, where it is an object of known ones.
    fn fields(self) -> Option<&'a Map<String, Value>> {
        let of = self.resolved();
        let fields = of["properties"].as_object().filter(|it| !it.is_empty())?;
        let is_no = |key: &str| matches!(of.get(key), None | Some(Value::Bool(false)));
        let is_known = is_no("additionalProperties") && COMPOSED.iter().all(|key| is_no(key));
        is_known.then_some(fields)
    }

    /// Whether a person enters it without JSON.
    fn has_fields(self) -> bool {
        let is_line = |kind| ["boolean", "string", "integer", "number"].contains(&kind);
        self.fields().is_some() || self.words().is_some() || self.kind().is_some_and(is_line)
    }

    fn requires(self, name: &str) -> bool {
        let all = self.resolved()["required"].as_array();
        all.is_some_and(|all| all.iter().any(|it| it == name))
    }

    /// The texts of which it is one.
    fn words(self) -> Option<Vec<&'a str>> {
        let of = self.resolved();
        // Those with a description have a branch each, and the others have one together.
        let branches = match of["oneOf"].as_array() {
            Some(all) => all.iter().collect(),
            None => vec![of],
        };
        let mut values = Vec::new();
        for it in branches {
            match (it["enum"].as_array(), it.get("const")) {
                (Some(all), _) => values.extend(all),
                (None, only) => values.push(only?),
            }
        }
        let values = values.into_iter().filter(|it| !it.is_null());
        values.map(Value::as_str).collect()
    }

    /// The one kind of value beside null.
    fn kind(self) -> Option<&'a str> {
        match &self.resolved()["type"] {
            Value::Array(kinds) => {
                let mut kinds = kinds.iter().filter(|it| *it != "null");
                let only = kinds.next()?.as_str();
                only.filter(|_| kinds.next().is_none())
            }
            kind => kind.as_str(),
        }
    }
}

/// The value that the form holds. The fields of an object are named `NAME.FIELD`, the one field of another value `NAME.value`; JSON is
/// in one of this name. None where nothing was entered, or where it cannot be read. `kept`: what it holds at first, where it is not new.
pub(super) fn value(
    form: &mut Form<'_>,
    name: &str,
    label: &Markup,
    typed: Typed<'_>,
    kept: Option<&Value>,
) -> Option<Value> {
    // Fields cannot hold each value. They show one that they would send as it is.
    let keep = |kept: &Value| {
        let opened = in_fields(&mut Form::of(None), name, label, typed, Some(kept));
        opened.as_ref() == Some(kept)
    };
    let is_by_fields = match form.is_sent() {
        // It comes back as it was sent.
        true => !form.was_sent(name),
        false => kept.is_none_or(keep),
    };
    match is_by_fields && typed.has_fields() {
        true => in_fields(form, name, label, typed, kept),
        false => as_json(form, name, label, typed, kept),
    }
}

fn as_json(
    form: &mut Form<'_>,
    name: &str,
    label: &Markup,
    typed: Typed<'_>,
    kept: Option<&Value>,
) -> Option<Value> {
    let label = html! { (label) span.quiet { ", as JSON of its declared type" } };
    let at_first = kept.or(typed.example).map(|it| format!("{it:#}"));
    form.json(name, label, &at_first.unwrap_or_default(), true)
}

fn in_fields(
    form: &mut Form<'_>,
    name: &str,
    label: &Markup,
    typed: Typed<'_>,
    kept: Option<&Value>,
) -> Option<Value> {
    let Some(fields) = typed.fields() else {
        let only = Field {
            name: format!("{name}.value"),
            label: label.clone(),
            is_required: true,
            at_first: kept.unwrap_or(&Value::Null),
        };
        return of_one(form, &only, typed);
    };
    let mut found = Map::new();
    let before = form.count();
    for (field, schema) in fields {
        let of_field = typed.of(schema);
        let is_required = typed.requires(field);
        let it = Field {
            name: format!("{name}.{field}"),
            label: field_label(field, of_field, is_required),
            is_required,
            at_first: match (kept, typed.example) {
                (Some(kept), _) => &kept[field],
                (None, Some(_)) => of_field.default(),
                (None, None) => &Value::Null,
            },
        };
        if let Some(value) = of_one(form, &it, of_field) {
            found.insert(field.clone(), value);
        }
    }
    form.group(before, label);
    if typed.example.is_none() && found.is_empty() && form.is_sent() {
        let why = format!("`{name}` is empty; expected a value in one of its fields at least");
        form.refuse(ProblemCode::InvalidRequest, why);
    }
    Some(Value::Object(found))
}

fn field_label(field: &str, typed: Typed<'_>, is_required: bool) -> Markup {
    let about = typed.schema["description"].as_str();
    let about = about.or_else(|| typed.resolved()["description"].as_str());
    html! {
        (field)
        span.quiet {
            @if let Some(about) = about { ", " (about.trim_end_matches('.')) }
            @if !is_required { ", may be left out" }
        }
    }
}

struct Field<'a> {
    name: String,
    label: Markup,
    is_required: bool,
    at_first: &'a Value,
}

impl Field<'_> {
    /// What a field of one line holds at first.
    fn line(&self) -> String {
        match self.at_first {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }
}

/// The value of a field; none: it is left out.
fn of_one(form: &mut Form<'_>, it: &Field<'_>, typed: Typed<'_>) -> Option<Value> {
    let entered = entered(form, it, typed);
    entered.or_else(|| left_empty(form, it, typed))
}

/// What a field without a value stands for.
fn left_empty(form: &mut Form<'_>, it: &Field<'_>, typed: Typed<'_>) -> Option<Value> {
    let default = typed.default();
    let is_nothing = |value: &Value| value.is_null() || value == "";
    // Without it the type would take its default in place of what was cleared.
    let is_cleared = form.was_sent(&it.name) && !is_nothing(it.at_first) && !is_nothing(default);
    if (it.is_required || is_cleared) && typed.allows_null() {
        return Some(Value::Null);
    }
    let expected = match is_cleared {
        true => format!("`{default}` or another value"),
        false => "a value".to_owned(),
    };
    if is_cleared || (it.is_required && form.is_sent()) {
        let why = format!("`{}` is missing; expected {expected}", it.name);
        form.refuse(ProblemCode::InvalidRequest, why);
    }
    None
}

/// What was entered in a field, or is there at first.
fn entered(form: &mut Form<'_>, it: &Field<'_>, typed: Typed<'_>) -> Option<Value> {
    let is_required = it.is_required && !typed.allows_null();
    match (typed.words(), typed.kind()) {
        (Some(words), _) => {
            let all = words.into_iter().map(|word| (word, word));
            let chosen = choice(form, it, is_required, all);
            (!chosen.is_empty()).then_some(Value::String(chosen))
        }
        (None, Some("boolean")) => {
            let all = [("true", "yes"), ("false", "no")].into_iter();
            choice(form, it, is_required, all)
                .parse()
                .ok()
                .map(Value::Bool)
        }
        (None, Some("string")) => text(form, it, is_required),
        (None, Some("integer" | "number")) => number(form, it, is_required),
        _ => {
            let at_first = match it.at_first {
                Value::Null => String::new(),
                value => format!("{value:#}"),
            };
            let label = html! { (it.label) span.quiet { ", as JSON" } };
            form.json(&it.name, label, &at_first, is_required)
        }
    }
}

fn choice<'a>(
    form: &mut Form<'_>,
    it: &Field<'_>,
    is_required: bool,
    all: impl Iterator<Item = (&'a str, &'a str)>,
) -> String {
    // One that has to be chosen is not chosen by chance.
    let all = [("", "–")].into_iter().chain(all);
    let all: Vec<_> = all
        .map(|(value, text)| (value.to_owned(), text.to_owned()))
        .collect();
    form.chosen(&it.name, &it.label, &all, &it.line(), is_required)
}

fn text(form: &mut Form<'_>, it: &Field<'_>, is_required: bool) -> Option<Value> {
    let (at_first, label) = (it.line(), it.label.clone());
    // A field of one line drops line breaks; one of several sends them as browsers write them.
    let _ = match form.value(&it.name, &at_first).contains('\n') {
        true => form.text(&it.name, label, &at_first, is_required),
        false => form.entry(&it.name, label, &at_first, "", is_required),
    };
    // As it was entered: its spaces count.
    let text = form.value(&it.name, &at_first);
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    (!text.is_empty()).then_some(Value::String(text))
}

fn number(form: &mut Form<'_>, it: &Field<'_>, is_required: bool) -> Option<Value> {
    let text = form.entry(&it.name, it.label.clone(), &it.line(), "", is_required);
    if text.is_empty() {
        return None;
    }
    let read = serde_json::from_str::<Value>(&text).ok();
    let read = read.filter(Value::is_number);
    if read.is_none() {
        let why = format!("`{}`: `{text}` is no number", it.name);
        form.refuse(ProblemCode::InvalidRequest, why);
    }
    read
}

#[cfg(test)]
mod tests;
