//! Files in requests and outputs: which of them are a task's own, and the same values with copies in their
//! place. Must not touch an object.

use crate::keys::ObjectKey;
use counterstep_contracts::{StoredFile, TaskId, UploadedFile};
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;

/// Where an object lies: its bucket and its key.
pub(in crate::client) type Place = (String, String);

/// A file that a value refers to, where it is an object of the task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::client) struct FileRef {
    pub(in crate::client) place: Place,
    /// The step that has stored it.
    pub(in crate::client) step: String,
    pub(in crate::client) size_bytes: u64,
    pub(in crate::client) sha256: String,
}

/// Bucket, key, size and SHA-256 of a value that is a file.
fn file(value: &Value) -> Option<(String, String, u64, String)> {
    // A list of one file can be read as that file, and is none.
    if !value.is_object() {
        return None;
    }
    if let Ok(file) = StoredFile::deserialize(value) {
        return Some((file.bucket, file.key, file.size_bytes, file.sha256));
    }
    let file = UploadedFile::deserialize(value).ok()?;
    Some((file.bucket, file.key, file.size_bytes, file.sha256))
}

/// The files of a value that the task has stored, each once. An error: it names such an object by its key
/// alone.
pub(in crate::client) fn refs(value: &Value, of: TaskId) -> Result<Vec<FileRef>, KeyAlone> {
    let mut found = Vec::new();
    walk(value, of, &mut found)?;
    Ok(found)
}

/// The key of a file that another task has stored: it goes when that one says.
pub(in crate::client) fn foreign(value: &Value, of: TaskId) -> Option<String> {
    if let Some((_, key, ..)) = file(value) {
        return ObjectKey::parse(&key)
            .is_some_and(|key| key.task != of)
            .then_some(key);
    }
    match value {
        Value::Object(fields) => fields.values().find_map(|value| foreign(value, of)),
        Value::Array(list) => list.iter().find_map(|value| foreign(value, of)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// A key that stands outside of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::client) struct KeyAlone;

fn walk(value: &Value, of: TaskId, found: &mut Vec<FileRef>) -> Result<(), KeyAlone> {
    let own = |key: &str| ObjectKey::parse(key).filter(|key| key.task == of);
    if let Some((bucket, key, size_bytes, sha256)) = file(value) {
        if let Some(ObjectKey { step, .. }) = own(&key) {
            let place = (bucket, key);
            if !found.iter().any(|file| file.place == place) {
                found.push(FileRef {
                    place,
                    step,
                    size_bytes,
                    sha256,
                });
            }
        }
        return Ok(());
    }
    match value {
        Value::String(text) if own(text).is_some() => Err(KeyAlone),
        Value::Object(fields) => fields.values().try_for_each(|value| walk(value, of, found)),
        Value::Array(list) => list.iter().try_for_each(|value| walk(value, of, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

/// The value with each of these files in its new place.
pub(in crate::client) fn renamed(value: &mut Value, moved: &HashMap<Place, Place>) {
    let place = file(value).map(|(bucket, key, ..)| (bucket, key));
    if let Some((bucket, key)) = place.and_then(|place| moved.get(&place)) {
        value["bucket"] = Value::String(bucket.clone());
        value["key"] = Value::String(key.clone());
        return;
    }
    match value {
        Value::Object(fields) => fields.values_mut().for_each(|value| renamed(value, moved)),
        Value::Array(list) => list.iter_mut().for_each(|value| renamed(value, moved)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn own_files_are_found_and_get_their_new_place_and_others_stay() {
        let task: TaskId = "01930d2c-6c4b-7d5e-8f00-0123456789ab".parse().unwrap();
        let key = |task: &str, step: &str| format!("t/acme/{task}/{step}/e0.1/0");
        let own = key(&task.to_string(), "upload");
        let other = key("01930d2c-70aa-7e01-9c11-ba9876543210", "zip");
        let stored = |key: &str| {
            json!({
                "name": "a.txt", "bucket": "files", "key": key, "size_bytes": 3, "sha256": "00",
                "content_type": "text/plain",
            })
        };
        let mut value =
            json!({"all": [stored(&own), stored(&own)], "more": {"other": stored(&other)}, "n": 1});
        let found = refs(&value, task).expect("files");
        let place = ("files".to_owned(), own.clone());
        let [one] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!(
            (&one.place, &*one.step, one.size_bytes),
            (&place, "upload", 3)
        );
        let copy = ("others".to_owned(), "t/acme/x/upload/e0.1/0".to_owned());
        renamed(&mut value, &HashMap::from([(place, copy.clone())]));
        let moved = json!({
            "name": "a.txt", "bucket": copy.0, "key": copy.1, "size_bytes": 3, "sha256": "00",
            "content_type": "text/plain",
        });
        assert_eq!(
            value,
            json!({"all": [moved, moved], "more": {"other": stored(&other)}, "n": 1})
        );
        assert_eq!(refs(&json!({"key": own}), task), Err(KeyAlone));
        assert_eq!(refs(&json!({"key": other}), task), Ok(vec![]));
    }
}
