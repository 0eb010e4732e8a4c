//! A request that an operator changes: the new one whole, or what is to be different. Must not change a task.

use crate::task::{ReadRequestFn, RequestError};
use counterstep_contracts::UploadedFile;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// How a request is to be changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestEdit {
    /// This takes its place.
    Whole(Value),
    /// These fields do, by RFC 7396: a `null` removes one.
    Patch(Value),
}

/// A request cannot be changed like that.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// It would not fit its type.
    #[error(transparent)]
    Invalid(#[from] RequestError),
    /// Its files came with the submission, and are stored.
    #[error(
        "the files of a request cannot be changed: leave them as they are, with all their fields"
    )]
    Files,
}

impl RequestEdit {
    /// The request that it makes of another one, checked, in its canonical form.
    ///
    /// # Errors
    /// [`EditError`].
    pub fn of(&self, request: &Value, read: ReadRequestFn) -> Result<Value, EditError> {
        let changed = match self {
            Self::Whole(changed) => changed.clone(),
            Self::Patch(patch) => {
                let mut changed = request.clone();
                merge(&mut changed, patch);
                changed
            }
        };
        let changed = read(changed)?;
        if files(&changed) == files(request) {
            Ok(changed)
        } else {
            Err(EditError::Files)
        }
    }
}

/// As RFC 7396 has it.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        target.clone_from(patch);
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(fields) = target else {
        return;
    };
    for (name, change) in patch {
        if change.is_null() {
            fields.remove(name);
        } else {
            merge(fields.entry(name.as_str()).or_insert(Value::Null), change);
        }
    }
}

/// The files of a canonical request, in the order in which they stand there.
#[must_use]
pub fn files(request: &Value) -> Vec<UploadedFile> {
    fn add(value: &Value, files: &mut Vec<UploadedFile>) {
        // A list of one file can be read as that file.
        let file = Some(value).filter(|value| value.is_object());
        if let Some(Ok(file)) = file.map(UploadedFile::deserialize) {
            files.push(file);
            return;
        }
        match value {
            Value::Object(fields) => fields.values().for_each(|value| add(value, files)),
            Value::Array(list) => list.iter().for_each(|value| add(value, files)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut files = Vec::new();
    add(request, &mut files);
    files
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Those of appendix A of RFC 7396.
    #[test]
    fn a_patch_is_merged_as_the_standard_has_it() {
        for (mut target, patch, merged) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (
                json!({"a": "b"}),
                json!({"b": "c"}),
                json!({"a": "b", "b": "c"}),
            ),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (
                json!({"a": "b", "b": "c"}),
                json!({"a": null}),
                json!({"b": "c"}),
            ),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (
                json!({"a": {"b": "c"}}),
                json!({"a": {"b": "d", "c": null}}),
                json!({"a": {"b": "d"}}),
            ),
            (
                json!({"a": [{"b": "c"}]}),
                json!({"a": [1]}),
                json!({"a": [1]}),
            ),
            (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
            (json!({"a": "b"}), json!(["c"]), json!(["c"])),
            (json!({"a": "foo"}), json!(null), json!(null)),
            (json!({"a": "foo"}), json!("bar"), json!("bar")),
            (
                json!({"e": null}),
                json!({"a": 1}),
                json!({"e": null, "a": 1}),
            ),
            (
                json!([1, 2]),
                json!({"a": "b", "c": null}),
                json!({"a": "b"}),
            ),
            (
                json!({}),
                json!({"a": {"bb": {"ccc": null}}}),
                json!({"a": {"bb": {}}}),
            ),
        ] {
            let before = target.clone();
            merge(&mut target, &patch);
            assert_eq!(target, merged, "{before} and {patch}");
        }
    }

    #[test]
    fn the_files_of_a_request_stay() {
        let file = |key: &str| {
            json!({
                "field": "files", "name": "a.txt", "content_type": "text/plain", "size_bytes": 1,
                "sha256": "00", "bucket": "incoming-files", "key": key,
            })
        };
        let request = json!({"files": [file("one")], "title": "a"});
        let edit = |edit: RequestEdit| edit.of(&request, Ok);
        let titled = edit(RequestEdit::Patch(json!({"title": "b"})));
        assert_eq!(titled, Ok(json!({"files": [file("one")], "title": "b"})));
        for stolen in [
            RequestEdit::Patch(json!({"files": [file("two")]})),
            RequestEdit::Patch(json!({"files": []})),
            RequestEdit::Whole(json!({"files": [file("one"), file("two")], "title": "a"})),
            RequestEdit::Whole(json!({"title": file("two"), "files": [file("one")]})),
        ] {
            assert_eq!(edit(stolen), Err(EditError::Files));
        }
    }
}
