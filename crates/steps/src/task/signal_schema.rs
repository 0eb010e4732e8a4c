//! The JSON schema of the body of a signal, for people and programs that send one. Must not check a body: `read_request` does.

use super::registry::Registry;
use super::types::{StepCode, TaskType};
use schemars::generate::SchemaSettings;
use serde_json::Value;
use std::collections::BTreeMap;

impl Registry {
    /// What [`StepCode::signal_schema`] makes of the steps of a type of this program, by their names.
    #[must_use]
    pub fn signals_of(&self, task_type: &TaskType) -> Option<&BTreeMap<String, Value>> {
        let decl = task_type.decl;
        self.registered(decl.name, decl.version)
            .map(|it| &it.signals)
    }
}

impl TaskType {
    pub(super) fn signals(&self) -> BTreeMap<String, Value> {
        let steps = self.decl.steps.iter().zip(self.steps);
        let of_signals =
            steps.filter_map(|(step, code)| Some((step.name.to_owned(), code.signal_schema()?)));
        of_signals.collect()
    }
}

impl StepCode {
    /// The JSON schema of the body of the signal that the step waits for, with the schemas that it refers to in `$defs`; `None`: it waits
    /// for no signal, or the type of the body has no schema.
    #[must_use]
    pub fn signal_schema(&self) -> Option<Value> {
        self.signal?;
        let settings = SchemaSettings::draft2020_12().for_deserialize();
        let mut generator = settings.into_generator();
        let mut schema = (self.output_schema?)(&mut generator).to_value();
        let definitions = generator.take_definitions(true);
        // The output of a step that may do without its signal is one or none, and no body is none.
        without_null(&mut schema);
        if let Some(fields) = schema.as_object_mut().filter(|_| !definitions.is_empty()) {
            fields.insert("$defs".to_owned(), Value::Object(definitions));
        }
        Some(schema)
    }
}

fn without_null(schema: &mut Value) {
    let is_null = |it: &Value| *it == "null" || it.is_null() || it["type"] == "null";
    for key in ["type", "anyOf", "enum"] {
        let Some(Value::Array(kinds)) = schema.get_mut(key) else {
            continue;
        };
        kinds.retain(|it| !is_null(it));
        let [only] = kinds.as_mut_slice() else {
            continue;
        };
        let only = only.take();
        match (key, only) {
            ("anyOf", Value::Object(only)) => {
                if let Some(fields) = schema.as_object_mut() {
                    fields.remove(key);
                    fields.extend(only);
                }
            }
            ("enum", only) => schema[key] = Value::Array(vec![only]),
            (_, only) => schema[key] = only,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::BuiltInStep;
    use crate::declare::{NoSchema, SchemaOf};
    use crate::task::{Run, SchemaFn};
    use crate::{AwaitSignal, MaybeSignal, StepError};
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};
    use serde_json::json;

    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Approval {
        by: String,
    }

    #[derive(Serialize, Deserialize)]
    struct Unknown;

    fn code<S: BuiltInStep>(output_schema: Option<SchemaFn>) -> StepCode {
        StepCode {
            run: Run::BuiltIn(|_| Err(StepError::permanent("it does not run"))),
            undo: None,
            when: None,
            fallback: None,
            signal: S::READ_SIGNAL,
            probe: None,
            read_output: Ok,
            output_schema,
        }
    }

    #[test]
    fn a_body_has_the_schema_of_its_type_and_is_never_none() {
        let one = code::<AwaitSignal<Approval>>(SchemaOf::<Approval>::SCHEMA).signal_schema();
        let one = one.expect("a schema");
        assert_eq!(one["$ref"], "#/$defs/Approval");
        assert_eq!(one["$defs"]["Approval"]["required"], json!(["by"]));
        let maybe = code::<MaybeSignal<Approval>>(SchemaOf::<Option<Approval>>::SCHEMA);
        assert_eq!(maybe.signal_schema(), Some(one));
        let number = code::<MaybeSignal<u8>>(SchemaOf::<Option<u8>>::SCHEMA).signal_schema();
        assert_eq!(number.expect("a schema")["type"], "integer");
    }

    #[test]
    fn a_type_without_a_schema_and_a_step_without_a_signal_have_none() {
        let unknown = code::<AwaitSignal<Unknown>>(SchemaOf::<Unknown>::SCHEMA);
        assert_eq!(unknown.signal_schema(), None);
        let sleeps = code::<crate::Sleep>(SchemaOf::<u8>::SCHEMA);
        assert_eq!(sleeps.signal_schema(), None);
    }
}
