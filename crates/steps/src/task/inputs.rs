//! What a step may read, and what is stored of what it gives.

use crate::error::{StepError, StepResult};
use crate::json::to_json;
use crate::output_limit::OutputLimit;
use crate::state::{State, States};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;

/// What a step may read: the request and the committed outputs of earlier steps, by step name.
#[derive(Debug, Clone, Default)]
pub struct Inputs {
    request: Value,
    outputs: BTreeMap<String, Value>,
    limit: OutputLimit,
    states: States,
}

/// The source name of the request; no step may have it.
pub const REQUEST: &str = "request";

impl Inputs {
    /// Of a request and the outputs committed so far.
    #[must_use]
    pub fn new(request: Value, outputs: BTreeMap<String, Value>) -> Self {
        Self {
            request,
            outputs,
            limit: OutputLimit::default(),
            states: States::default(),
        }
    }

    /// The same, with what the program provides.
    #[must_use]
    pub fn with_states(self, states: States) -> Self {
        Self { states, ..self }
    }

    /// The same, for what is made of them a limit of its own.
    #[must_use]
    pub fn within(self, limit: OutputLimit) -> Self {
        Self { limit, ..self }
    }

    /// What another process needs to have the same: the request, the outputs and the limit. States are made
    /// there.
    #[must_use]
    pub const fn parts(&self) -> (&Value, &BTreeMap<String, Value>, OutputLimit) {
        (&self.request, &self.outputs, self.limit)
    }

    /// Turns what was made of them into what is stored.
    ///
    /// # Errors
    /// As [`output`]; permanent, too, when it is too large.
    pub fn output<T: Serialize>(&self, value: &T) -> StepResult<Value> {
        self.limit.check(value)?;
        output(value)
    }

    /// A value that the program provides.
    ///
    /// # Errors
    /// Permanent, when it provides none. A process looks for that at its start.
    pub fn state<T: Send + Sync + 'static>(&self) -> StepResult<State<T>> {
        self.states.get().ok_or_else(|| {
            StepError::permanent(format_args!(
                "the program provides no `{}`: expected `Registry::provide(..)` with one",
                std::any::type_name::<T>()
            ))
        })
    }

    /// The value of a source, `request` or a step's name; `None` for a step that was skipped.
    #[must_use]
    pub fn value(&self, source: &str) -> Option<&Value> {
        if source == REQUEST {
            Some(&self.request)
        } else {
            self.outputs.get(source)
        }
    }

    /// Reads a source that is always there.
    ///
    /// # Errors
    /// Permanent, when it is missing or has another shape: the declaration changed under a running
    /// task.
    pub fn read<T: DeserializeOwned>(&self, source: &str) -> StepResult<T> {
        self.read_optional(source)?.ok_or_else(|| {
            StepError::permanent(format_args!(
                "the output of `{source}` is missing: was the declaration changed without a new version?"
            ))
        })
    }

    /// Reads a source that a condition may have skipped.
    ///
    /// # Errors
    /// Permanent, when it has another shape.
    pub fn read_optional<T: DeserializeOwned>(&self, source: &str) -> StepResult<Option<T>> {
        let Some(value) = self.value(source) else {
            return Ok(None);
        };
        T::deserialize(value).map(Some).map_err(|error| {
            StepError::permanent(format_args!(
                "the stored value of `{source}` does not fit the declared type ({error}): was the type changed without a new version?"
            ))
        })
    }
}

/// Turns a step's output into what is stored.
///
/// # Errors
/// Permanent, when the type's `Serialize` refuses, or a text in it holds the character U+0000,
/// which no database column takes.
pub fn output<T: Serialize>(value: &T) -> StepResult<Value> {
    let value = to_json(value).map_err(|error| {
        StepError::permanent(format_args!(
            "the output cannot be written as JSON: {error}"
        ))
    })?;
    if depth(&value) > DEPTH_LIMIT {
        return Err(StepError::permanent(format_args!(
            "the output is nested deeper than {DEPTH_LIMIT} levels, and could not be read back"
        )));
    }
    if holds_nul(&value) {
        return Err(StepError::permanent(
            "a text in the output holds the character U+0000, which cannot be stored",
        ));
    }
    Ok(value)
}

/// Well below the limit of the parser that reads it back, which counts the row around it too.
const DEPTH_LIMIT: usize = 64;

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

fn holds_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(list) => list.iter().any(holds_nul),
        Value::Object(map) => map
            .iter()
            .any(|(key, inner)| key.contains('\0') || holds_nul(inner)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
