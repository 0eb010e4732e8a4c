//! How a command line changes a request: whole, from a file, or field by field.

use counterstep_node::Exit;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};
use std::io::Read;
use std::path::Path;

pub(super) fn field(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or("expected FIELD=VALUE")?;
    if name.split('.').any(str::is_empty) {
        return Err("expected the name of a field before the =, as address.city".to_owned());
    }
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
    Ok((name.to_owned(), value))
}

/// Fields that are to be different as a JSON merge patch; `None`: none is.
pub(super) fn patch(fields: impl Iterator<Item = (String, Value)>) -> Result<Option<Value>, Exit> {
    let mut patch = Map::new();
    for (name, value) in fields {
        let mut parts: Vec<_> = name.split('.').collect();
        let last = parts.pop().unwrap_or_default();
        let mut place = &mut patch;
        for part in parts {
            let inner = place
                .entry(part)
                .or_insert_with(|| Value::Object(Map::new()));
            let Value::Object(inner) = inner else {
                let text = format!("--set {name}: `{part}` is given a value of its own too");
                return Err(Exit::config(text));
            };
            place = inner;
        }
        if place.insert(last.to_owned(), value).is_some() {
            return Err(Exit::config(format!("--set {name}: it stands twice")));
        }
    }
    Ok((!patch.is_empty()).then_some(Value::Object(patch)))
}

pub(super) fn read_file(file: &Path) -> Result<Value, Exit> {
    let text = if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(file)
    };
    let shown = file.display();
    let text =
        text.map_err(|error| Exit::usage(format_args!("`{shown}` cannot be read: {error}")))?;
    serde_json::from_str(&text).map_err(|error| {
        Exit::usage(format_args!(
            "`{shown}`: invalid request: {error}; expected JSON"
        ))
    })
}

/// What `--request` gives: itself where it is JSON, else what is in the file of this path.
pub(super) fn request_text(given: &str) -> Result<String, Exit> {
    if given == "-" {
        let mut text = String::new();
        let read = std::io::stdin().read_to_string(&mut text);
        return read
            .map(|_| text)
            .map_err(|error| Exit::usage(format_args!("--request: `-` cannot be read: {error}")));
    }
    let Err(no_json) = serde_json::from_str::<IgnoredAny>(given) else {
        return Ok(given.to_owned());
    };
    std::fs::read_to_string(given).map_err(|error| {
        Exit::usage(format_args!(
            "--request: `{given}` cannot be read: {error}; it is no JSON either: {no_json}"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn patch(texts: &[&str]) -> Result<Option<Value>, Exit> {
        super::patch(texts.iter().map(|text| field(text).expect("a field")))
    }

    #[test]
    fn fields_become_a_merge_patch() {
        let found = patch(&[
            "amount=12",
            "address.city=Bonn",
            "address.zip=\"53111\"",
            "note=null",
            "name=a=b",
        ]);
        let expected = json!({
            "amount": 12, "address": {"city": "Bonn", "zip": "53111"}, "note": null, "name": "a=b",
        });
        assert_eq!(found.expect("a patch"), Some(expected));
        assert_eq!(patch(&[]).expect("a patch"), None);
        for twice in [&["a=1", "a=2"], &["a=1", "a.b=2"], &["a.b=1", "a=2"]] {
            assert!(patch(twice).is_err(), "{twice:?}");
        }
        for odd in ["amount", "=1", "a..b=1"] {
            assert!(field(odd).is_err(), "{odd}");
        }
    }
}
