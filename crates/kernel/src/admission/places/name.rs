//! Names of types in what counts their tasks: in keys, and beside the names of limits.

/// Stands before the name of a type where it names what may be under way of it, beside the names of limits.
pub const TYPE_PREFIX: &str = "type:";

/// Under which name a person sets how many tasks of a type may be under way.
pub(crate) fn limit_name(task_type: &str) -> String {
    format!("{TYPE_PREFIX}{task_type}")
}

/// The type whose tasks a key counts.
#[must_use]
pub fn type_of(key: &str) -> &str {
    key.split_once('/').map_or(key, |(name, _)| name)
}
