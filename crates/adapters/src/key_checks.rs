//! Which keys and prefixes are acceptable. Every object store checks here first, so that the same
//! keys work in all of them, and that no key, whatever its source, leads out of its bucket. Must
//! not touch a store itself.

use counterstep_kernel::ports::ObjectError;
use counterstep_steps::keys::{is_archive_prefix, is_bucket_name};

/// A name that can stand as one segment of a path: `[A-Za-z0-9._-]`, not `.` or `..`, at most 200
/// bytes (a file system takes 255, and the half-done upload beside an object has a longer name).
pub(crate) fn is_segment(name: &str) -> bool {
    (1..=200).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
        && name != "."
        && name != ".."
}

fn refused(what: &str, text: &str) -> ObjectError {
    ObjectError::Refused(format!("`{}` is no acceptable {what}", text.escape_debug()))
}

/// A bucket's name.
pub(crate) fn bucket(name: &str) -> Result<&str, ObjectError> {
    if is_bucket_name(name) {
        Ok(name)
    } else {
        Err(refused("bucket", name))
    }
}

/// An object's key: `t/` and segments.
pub(crate) fn key(key: &str) -> Result<&str, ObjectError> {
    let inner = key
        .strip_prefix("t/")
        .ok_or_else(|| refused("object key", key))?;
    if inner.split('/').all(is_segment) {
        Ok(key)
    } else {
        Err(refused("object key", key))
    }
}

/// Where an object that is set aside goes: below `archive/`, which no prefix of ours can name.
pub(crate) fn archive_key(prefix: &str, of: &str) -> Result<String, ObjectError> {
    if is_archive_prefix(prefix) {
        return Ok(format!("archive/{prefix}/{}", key(of)?));
    }
    Err(refused("archive prefix", prefix))
}

/// Where something goes that was never an object of a task.
pub(crate) fn archive_name(name: &str) -> Result<String, ObjectError> {
    if is_archive_prefix(name) {
        Ok(format!("archive/{name}"))
    } else {
        Err(refused("name in the archive", name))
    }
}

/// A folder of keys that may be deleted: `t/{tenant}/{task}/` or below. No caller deletes a whole
/// tenant, so a shorter prefix is a mistake.
pub(crate) fn deletable_prefix(prefix: &str) -> Result<&str, ObjectError> {
    let folder = listable_prefix(prefix)?;
    if prefix
        .split('/')
        .filter(|segment| !segment.is_empty())
        .count()
        < 3
    {
        return Err(refused("prefix to delete", prefix));
    }
    Ok(folder)
}

/// A folder of keys that may be listed: nothing, `t/`, or segments below it. Returns it without the
/// slash at its end.
pub(crate) fn listable_prefix(prefix: &str) -> Result<&str, ObjectError> {
    if prefix.is_empty() || prefix == "t/" {
        return Ok(prefix.trim_end_matches('/'));
    }
    let folder = prefix
        .strip_suffix('/')
        .ok_or_else(|| refused("prefix", prefix))?;
    key(folder).map_err(|_| refused("prefix", prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_could_lead_out_of_their_bucket_are_refused() {
        for bad in [
            "",
            "t",
            "t/",
            "x/y",
            "/t/a",
            "t//a",
            "t/a/",
            "t/../a",
            "t/./a",
            "t/a/..",
            "t/%2e%2e/a",
            "t/a b",
            "t/a\\b",
            "t/a#1",
            "t/ä",
            "t/a\0",
            "T/a",
        ] {
            assert!(key(bad).is_err(), "{bad:?}");
        }
        assert!(key("t/default/0193/step.undo/e1.1/0").is_ok());
        assert!(key(&format!("t/{}", "x".repeat(201))).is_err());
    }

    #[test]
    fn only_a_tasks_folder_or_less_can_be_deleted() {
        for bad in [
            "",
            "t/",
            "t/tenant/",
            "t/tenant/task",
            "t/tenant/../",
            "t//task/",
            "t/tenant/task//",
        ] {
            assert!(deletable_prefix(bad).is_err(), "{bad:?}");
        }
        assert_eq!(deletable_prefix("t/tenant/task/").unwrap(), "t/tenant/task");
        assert_eq!(listable_prefix("t/tenant/").unwrap(), "t/tenant");
        assert_eq!(listable_prefix("").unwrap(), "");
    }
}
