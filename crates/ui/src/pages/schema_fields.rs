//! The part of a form that has a value of a declared type: a field for each field of an object, or JSON where the schema is not of
//! such an object. Must not check a value against its schema: the interface does, and names the field.

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
    /// A value of it, to begin with where it is entered as JSON.
    pub(super) example: &'a Value,
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

    /// What holds where nothing is entered.
    fn default(self) -> &'a Value {
        let own = self.schema.get("default");
        own.unwrap_or_else(|| &self.resolved()["default"])
    }

    /// Its fields, where it is an object of known ones, and a form of them keeps this value.
    fn fields(self, kept: Option<&Value>) -> Option<&'a Map<String, Value>> {
        let of = self.resolved();
        let fields = of["properties"].as_object().filter(|it| !it.is_empty())?;
        let is_no = |key: &str| matches!(of.get(key), None | Some(Value::Bool(false)));
        let is_known = is_no("additionalProperties") && COMPOSED.iter().all(|key| is_no(key));
        let has = |(name, value): (&String, &Value)| {
            // What is empty is left out: a text that is empty and need not be there would be lost.
            fields.contains_key(name) && (value != "" || self.requires(name))
        };
        let keeps = kept.is_none_or(|it| it.as_object().is_some_and(|it| it.iter().all(has)));
        (is_known && keeps).then_some(fields)
    }

    fn requires(self, name: &str) -> bool {
        let all = self.resolved()["required"].as_array();
        all.is_some_and(|all| all.iter().any(|it| it == name))
    }

    /// The texts of which it is one.
    fn words(self) -> Option<Vec<&'a str>> {
        let of = self.resolved();
        let values = of["enum"].as_array().map(|all| all.iter().collect());
        let described = || {
            let all = of["oneOf"].as_array()?;
            all.iter().map(|it| it.get("const")).collect()
        };
        let values: Vec<&Value> = values.or_else(described)?;
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

/// The value that the form holds. Its fields are named `NAME.FIELD`; JSON is in one of this name. None where nothing was entered, or
/// where it cannot be read. `kept`: what it holds at first, where it is not new.
pub(super) fn value(
    form: &mut Form<'_>,
    name: &str,
    label: &Markup,
    typed: Typed<'_>,
    kept: Option<&Value>,
) -> Option<Value> {
    // What was sent as JSON comes back as JSON.
    let fields = typed.fields(kept).filter(|_| !form.was_sent(name));
    let Some(fields) = fields else {
        let label = html! { (label) span.quiet { ", as JSON of its declared type" } };
        let at_first = kept.unwrap_or(typed.example);
        return form.json(name, label, &format!("{at_first:#}"));
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
            at_first: kept.map_or_else(|| of_field.default(), |kept| &kept[field]),
        };
        if let Some(value) = of_one(form, &it, of_field) {
            found.insert(field.clone(), value);
        }
    }
    form.group(before, label);
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
    match (typed.words(), typed.kind()) {
        (Some(words), _) => {
            let chosen = choice(form, it, words.into_iter().map(|word| (word, word)));
            (!chosen.is_empty()).then_some(Value::String(chosen))
        }
        (None, Some("boolean")) => {
            let chosen = choice(form, it, [("true", "yes"), ("false", "no")].into_iter());
            chosen.parse().ok().map(Value::Bool)
        }
        (None, Some("string")) => text(form, it),
        (None, Some("integer" | "number")) => number(form, it),
        _ => {
            let at_first = match it.at_first {
                Value::Null => String::new(),
                value => format!("{value:#}"),
            };
            let label = html! { (it.label) span.quiet { ", as JSON" } };
            form.json(&it.name, label, &at_first)
        }
    }
}

fn choice<'a>(
    form: &mut Form<'_>,
    it: &Field<'_>,
    all: impl Iterator<Item = (&'a str, &'a str)>,
) -> String {
    // One that has to be chosen is not chosen by chance.
    let all = [("", "–")].into_iter().chain(all);
    let all: Vec<_> = all
        .map(|(value, text)| (value.to_owned(), text.to_owned()))
        .collect();
    form.choice(&it.name, &it.label, &all, &it.line())
}

fn text(form: &mut Form<'_>, it: &Field<'_>) -> Option<Value> {
    let at_first = it.line();
    // A field of one line drops line breaks; one of several sends them as browsers write them.
    let _ = match form.value(&it.name, &at_first).contains('\n') {
        true => form.text(&it.name, it.label.clone(), &at_first),
        false => form.line(&it.name, it.label.clone(), &at_first, ""),
    };
    // As it was entered: its spaces count.
    let text = form.value(&it.name, &at_first).replace("\r\n", "\n");
    (it.is_required || !text.is_empty()).then_some(Value::String(text))
}

fn number(form: &mut Form<'_>, it: &Field<'_>) -> Option<Value> {
    let text = form.line(&it.name, it.label.clone(), &it.line(), "");
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
mod tests {
    use super::*;
    use crate::query::Fields;
    use serde_json::json;

    fn order() -> Value {
        json!({
            "$ref": "#/$defs/Order",
            "$defs": {
                "Order": {"type": "object", "required": ["name", "count", "side"], "properties": {
                    "name": {"type": "string"}, "count": {"type": "integer"}, "urgent": {"type": ["boolean", "null"]},
                    "note": {"type": ["string", "null"]}, "price": {"type": "number", "default": 2},
                    "side": {"$ref": "#/$defs/Side", "description": "Which one."},
                    "to": {"anyOf": [{"$ref": "#/$defs/Address"}, {"type": "null"}]},
                }},
                "Side": {"oneOf": [{"const": "left"}, {"const": "right"}]},
                "Address": {"type": "object", "properties": {"city": {"type": "string"}}},
            },
        })
    }

    /// What a form of this schema holds, why it is not sent, and how it is shown.
    fn held(
        schema: &Value,
        kept: Option<&Value>,
        sent: Option<&[(&str, &str)]>,
    ) -> (Option<Value>, Option<String>, String) {
        let pairs = sent.map(|all| {
            let all = all.iter();
            all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        });
        let sent = pairs.map(|all| Fields::of_pairs(all.collect()));
        let mut form = Form::of(sent.as_ref());
        let typed = Typed {
            document: schema,
            schema,
            example: &json!({"name": "an example"}),
        };
        let found = value(&mut form, "r", &html! { "R" }, typed, kept);
        let shown = form.shown().iter().map(|it| it.0.clone()).collect();
        (found, form.why_not().map(str::to_owned), shown)
    }

    #[test]
    fn an_object_has_a_field_for_each_of_its_fields_and_what_is_empty_is_left_out() {
        let sent = [
            ("r.name", " Kim "),
            ("r.count", "12"),
            ("r.urgent", "false"),
            ("r.note", ""),
            ("r.price", "2.5"),
            ("r.side", "right"),
            ("r.to", "{\"city\": \"Bonn\"}"),
        ];
        let (found, wrong, shown) = held(&order(), None, Some(&sent));
        let expected = json!({
            "name": " Kim ", "count": 12, "urgent": false, "price": 2.5, "side": "right", "to": {"city": "Bonn"},
        });
        assert_eq!((found, wrong), (Some(expected), None));
        assert!(
            shown.contains("<option value=\"right\" selected>"),
            "{shown}"
        );
        assert!(shown.contains(", Which one</span>"), "{shown}");
        let (_, _, shown) = held(&order(), None, None);
        assert!(shown.contains("name=\"r.price\" value=\"2\""), "{shown}");
        assert!(!shown.contains("an example"), "{shown}");
    }

    #[test]
    fn what_is_no_number_is_refused_with_its_field_and_shown_as_it_was_entered() {
        let (_, wrong, shown) = held(&order(), None, Some(&[("r.count", "a dozen")]));
        assert_eq!(wrong.as_deref(), Some("`r.count`: `a dozen` is no number"));
        assert!(
            shown.contains("name=\"r.count\" value=\"a dozen\""),
            "{shown}"
        );
    }

    #[test]
    fn a_value_that_fields_would_change_and_a_type_without_fields_are_json() {
        let kept = json!({"name": "Kim\nLee", "count": 1, "side": "left"});
        let (found, ..) = held(&order(), Some(&kept), None);
        assert_eq!(found.as_ref(), Some(&kept));
        for kept in [
            json!({"name": "", "later": 1}),
            json!({"note": ""}),
            json!(4),
        ] {
            let (found, _, shown) = held(&order(), Some(&kept), None);
            assert_eq!(found, Some(kept));
            assert!(shown.contains("<textarea id=\"r\""), "{shown}");
        }
        for schema in [
            json!({}),
            json!({"type": "object"}),
            json!({"type": "string"}),
        ] {
            let (found, ..) = held(&schema, None, None);
            assert_eq!(found, Some(json!({"name": "an example"})));
        }
        let sent: &[_] = &[("r", "{\"name\": 1}")];
        assert_eq!(held(&order(), None, Some(sent)).0, Some(json!({"name": 1})));
    }
}
