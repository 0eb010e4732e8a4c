//! A tool made of a declaration: what it takes, and the request that it is. Must not send one.

use counterstep_contracts::access::{CallerView, Role};
use counterstep_contracts::commands::WHOLE_BODY;
use counterstep_contracts::operation::query::with_query;
use counterstep_contracts::operation::{Access, BY_HAND, Body, Declared, Preview, Verb};
use serde_json::{Map, Value, json};

/// The argument that confirms a change.
pub(super) const CONFIRM: &str = "confirm";

/// The argument that is not asked for: who decides is the client.
const ACTOR: &str = "actor";

#[derive(Debug, Clone)]
pub(super) struct Tool {
    declared: Declared,
    /// What it takes, without the token.
    takes: Map<String, Value>,
    required: Vec<Value>,
    has_actor: bool,
    /// Whether one argument is all that is sent.
    is_whole: bool,
}

/// A request to the API.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Request {
    pub(super) verb: Verb,
    pub(super) path: String,
    pub(super) body: Option<Value>,
}

/// Those that a caller may use. What no cache may keep are secrets: a model gets none.
pub(super) fn offered(
    declared: &[Declared],
    caller: &CallerView,
    allow: Option<Role>,
) -> Vec<Tool> {
    let may = |access: Access| match access {
        Access::Open => true,
        Access::Signed => false,
        Access::Role(role) => role <= caller.role,
        Access::Installation => caller.is_of_installation,
    };
    let is_allowed = |it: &Declared| !it.about.changes() || allow >= it.about.access.role();
    let offered = declared
        .iter()
        .chain(BY_HAND)
        .filter(|it| may(it.about.access) && !it.about.no_store && is_allowed(it));
    offered.map(|it| Tool::of(*it)).collect()
}

impl Tool {
    fn of(declared: Declared) -> Self {
        let mut takes = Map::new();
        let mut required = Vec::new();
        for param in declared.params {
            let mut schema = (param.schema)();
            schema["description"] = json!(param.about);
            takes.insert(param.name.to_owned(), schema);
            required.push(json!(param.name));
        }
        let mut input = declared.input.as_ref().map_or(Value::Null, schema);
        // What is sent is no object of fields.
        let is_whole = declared.body().is_some() && input.get("properties").is_none();
        if is_whole {
            let about = json!({ "description": "What is sent" });
            takes.insert(WHOLE_BODY.to_owned(), about);
            required.push(json!(WHOLE_BODY));
        }
        let fields = input.get_mut("properties").and_then(Value::as_object_mut);
        let has_actor = match fields {
            Some(fields) => {
                let has_actor = fields.remove(ACTOR).is_some();
                // What shows a change is asked for before each.
                if let Some(Preview::Flag(field)) = declared.about.preview {
                    fields.remove(field);
                }
                takes.append(fields);
                has_actor
            }
            None => false,
        };
        required.extend(input["required"].as_array().into_iter().flatten().cloned());
        Self {
            declared,
            takes,
            required,
            has_actor,
            is_whole,
        }
    }

    pub(super) const fn name(&self) -> &'static str {
        self.declared.about.id
    }

    pub(super) const fn changes(&self) -> bool {
        self.declared.about.changes()
    }

    pub(super) const fn summary(&self) -> &'static str {
        self.declared.about.summary
    }

    /// As `tools/list` has it.
    pub(super) fn listed(&self) -> Value {
        let about = &self.declared.about;
        let mut takes = self.takes.clone();
        if self.changes() {
            let token = "The token of the answer that showed what this would change";
            takes.insert(
                CONFIRM.to_owned(),
                json!({ "type": "string", "description": token }),
            );
        }
        let mut tool = json!({
            "name": about.id,
            "title": about.summary,
            "description": format!("{}. {}.", about.summary, about.answers),
            "inputSchema": {
                "type": "object",
                "properties": takes,
                "required": self.required,
                "additionalProperties": false,
            },
            "annotations": {
                "readOnlyHint": !self.changes(),
                "destructiveHint": self.changes(),
                "idempotentHint": matches!(about.verb, Verb::Get | Verb::Put | Verb::Delete),
                "openWorldHint": false,
            },
        });
        // The first answer of a change has another form.
        if let Some(output) = self.declared.output.as_ref().filter(|_| !self.changes()) {
            tool["outputSchema"] = schema(output);
        }
        tool
    }

    /// The request with these arguments.
    pub(super) fn request(&self, mut arguments: Map<String, Value>) -> Result<Request, String> {
        let known = |name: &String| self.takes.contains_key(name);
        if let Some(name) = arguments.keys().find(|name| !known(name)) {
            return Err(format!("no argument {name:?}; expected: {}", self.names()));
        }
        let named = self.named(&mut arguments)?;
        let named: Vec<_> = named.iter().map(String::as_str).collect();
        let about = &self.declared.about;
        let path = about.address(&named);
        let (path, body) = match (self.declared.query, self.declared.input) {
            (Some(_), _) => (with_query(&path, &arguments), None),
            (None, Some(_)) if self.is_whole => {
                let body = arguments.remove(WHOLE_BODY);
                let missing = || format!("expected {WHOLE_BODY:?}: what is sent");
                (path, Some(body.ok_or_else(missing)?))
            }
            (None, Some(_)) => (path, Some(Value::Object(arguments))),
            (None, None) => (path, None),
        };
        Ok(Request {
            verb: about.verb,
            path,
            body,
        })
    }

    /// What shows what a change would do.
    pub(super) fn preview(
        &self,
        mut arguments: Map<String, Value>,
    ) -> Result<Option<Request>, String> {
        Ok(match self.declared.about.preview {
            None => None,
            Some(Preview::At(path)) => {
                let named = self.named(&mut arguments)?;
                let named: Vec<_> = named.iter().map(String::as_str).collect();
                Some(Request {
                    verb: Verb::Get,
                    path: counterstep_contracts::commands::address(path, &named),
                    body: None,
                })
            }
            Some(Preview::Flag(field)) => {
                let mut request = self.request(arguments)?;
                if let Some(Value::Object(body)) = &mut request.body {
                    body.insert(field.to_owned(), Value::Bool(true));
                }
                Some(request)
            }
        })
    }

    /// Puts who decides into a body.
    pub(super) fn signed(&self, request: &mut Request, actor: &str) {
        if let Some(Value::Object(body)) = request.body.as_mut().filter(|_| self.has_actor) {
            body.insert(ACTOR.to_owned(), json!(actor));
        }
    }

    fn named(&self, arguments: &mut Map<String, Value>) -> Result<Vec<String>, String> {
        let params = self.declared.params.iter();
        let named = params.map(|param| match arguments.remove(param.name) {
            Some(Value::String(text)) if !text.is_empty() => Ok(text),
            _ => Err(format!(
                "expected a text as {:?}: {}",
                param.name, param.about
            )),
        });
        named.collect()
    }

    fn names(&self) -> String {
        let names: Vec<_> = self.takes.keys().map(String::as_str).collect();
        if names.is_empty() {
            return "none".to_owned();
        }
        names.join(", ")
    }
}

/// The schema of a body: what it is named by has no place beside a tool.
fn schema(body: &Body) -> Value {
    let mut schema = body.whole_schema();
    if let Some(schema) = schema.as_object_mut() {
        schema.remove("$schema");
    }
    portable(&mut schema);
    schema
}

/// Writes a schema in the words that programs for models read: no bare `true`, one type each, no widths of numbers.
fn portable(schema: &mut Value) {
    if *schema == Value::Bool(true) {
        *schema = json!({});
    }
    let Some(words) = schema.as_object_mut() else {
        return;
    };
    let is_width = |format: &Value| {
        let format = format.as_str().unwrap_or_default();
        format.trim_start_matches('u').starts_with("int")
    };
    words.retain(|word, value| word != "format" || !is_width(value));
    for word in ["properties", "$defs"] {
        let named = words.get_mut(word).and_then(Value::as_object_mut);
        named.into_iter().flatten().for_each(|(_, it)| portable(it));
    }
    for word in ["anyOf", "oneOf", "allOf"] {
        let several = words.get_mut(word).and_then(Value::as_array_mut);
        several.into_iter().flatten().for_each(portable);
    }
    if let Some(items) = words.get_mut("items") {
        portable(items);
    }
    if let Some(others) = words
        .get_mut("additionalProperties")
        .filter(|it| **it != Value::Bool(false))
    {
        portable(others);
    }
    let Some(Value::Array(types)) = words.get("type").cloned() else {
        return;
    };
    // A union says what each of its members is; what describes all stays with it.
    let of_all = ["description", "default", "title"];
    let (about, rest): (Map<_, _>, Map<_, _>) = std::mem::take(words)
        .into_iter()
        .partition(|(word, _)| of_all.contains(&word.as_str()));
    let one = |kind: Value| {
        let mut one = if kind == "null" {
            Map::new()
        } else {
            rest.clone()
        };
        one.insert("type".to_owned(), kind);
        Value::Object(one)
    };
    *words = about;
    words.insert("anyOf".to_owned(), types.into_iter().map(one).collect());
}

#[cfg(test)]
mod tests {
    use super::*;
    use counterstep_contracts::operation::ALL;
    use std::collections::BTreeSet;

    fn caller(role: Role, is_of_installation: bool) -> CallerView {
        CallerView {
            tenant: "default".to_owned(),
            subject: None,
            role,
            is_of_installation,
            key: None,
        }
    }

    fn names(tools: &[Tool]) -> BTreeSet<&'static str> {
        tools.iter().map(Tool::name).collect()
    }

    #[test]
    fn a_key_is_offered_what_its_role_may_and_no_change_without_being_allowed() {
        let admin = caller(Role::Admin, true);
        let reads = offered(ALL, &admin, None);
        assert!(reads.iter().all(|tool| !tool.changes()));
        assert!(names(&reads).contains("listQueues"));
        assert!(!names(&reads).contains("listAlertSecrets"));
        let operates = names(&offered(ALL, &admin, Some(Role::Operate)));
        assert!(operates.contains("resolveTask") && operates.contains("cancelTask"));
        assert!(!operates.contains("pauseQueue"));
        let everything = names(&offered(ALL, &admin, Some(Role::Admin)));
        assert!(everything.contains("pauseQueue") && !everything.contains("makeKey"));
        let reader = names(&offered(ALL, &caller(Role::Read, false), Some(Role::Admin)));
        assert!(reader.contains("checkAudit"));
        assert!(!reader.contains("listQueues") && !reader.contains("cancelTask"));
    }

    #[test]
    fn what_an_address_names_and_a_field_of_the_input_have_names_of_their_own() {
        for declared in ALL {
            let tool = Tool::of(*declared);
            let fields = declared.input.as_ref().map(schema);
            // What has no fields is one argument.
            let fields = fields
                .as_ref()
                .map_or(0, |it| it["properties"].as_object().map_or(1, Map::len));
            let is_shown_by_itself = matches!(declared.about.preview, Some(Preview::Flag(_)));
            let left_out = usize::from(tool.has_actor) + usize::from(is_shown_by_itself);
            let all = declared.params.len() + fields - left_out;
            assert_eq!(tool.takes.len(), all, "{}", tool.name());
            assert!(!tool.takes.contains_key(CONFIRM), "{}", tool.name());
            let listed = tool.listed().to_string();
            assert!(!listed.contains("$ref"), "{}", tool.name());
        }
    }

    #[test]
    fn the_arguments_are_an_address_and_a_body() {
        let tools = offered(ALL, &caller(Role::Admin, true), Some(Role::Admin));
        let pause = tools
            .iter()
            .find(|tool| tool.name() == "pauseQueue")
            .unwrap();
        let arguments = |text: &str| serde_json::from_str::<Map<_, _>>(text).unwrap();
        let mut request = pause
            .request(arguments(r#"{"name":"a/../b?x","note":"why"}"#))
            .unwrap();
        pause.signed(&mut request, "mcp:pen");
        let expected = Request {
            verb: Verb::Post,
            path: "/api/queues/a%2F..%2Fb%3Fx/pause".to_owned(),
            body: Some(json!({ "note": "why", "actor": "mcp:pen" })),
        };
        assert_eq!(request, expected);
        for bad in [
            r#"{"note":"why"}"#,
            r#"{"name":7}"#,
            r#"{"name":"a","actor":"kim"}"#,
        ] {
            assert!(pause.request(arguments(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_sent_whole_is_one_argument() {
        let tools = offered(ALL, &caller(Role::Submit, false), Some(Role::Submit));
        let signal = tools.iter().find(|tool| tool.name() == "sendSignal");
        let signal = signal.unwrap();
        let task = "01930d2c-6c4b-7d5e-8f00-0123456789ab";
        let mut arguments = json!({ "task_id": task, "name": "approval", "body": 7 });
        let arguments = arguments.as_object_mut().unwrap();
        let request = signal.request(arguments.clone()).unwrap();
        assert_eq!(request.path, format!("/api/tasks/{task}/signals/approval"));
        assert_eq!(request.body, Some(json!(7)));
        arguments.remove(WHOLE_BODY);
        assert!(signal.request(arguments.clone()).is_err());
    }

    #[test]
    fn the_arguments_of_a_list_are_its_query() {
        let tools = offered(ALL, &caller(Role::Read, false), None);
        let list = tools.iter().find(|tool| tool.name() == "listChildren");
        let arguments = json!({
            "task_id": "01930d2c-6c4b-7d5e-8f00-0123456789ab", "status": ["failed", "running"], "limit": 7, "step": "a&b",
        });
        let request = list
            .unwrap()
            .request(arguments.as_object().unwrap().clone());
        let expected = Request {
            verb: Verb::Get,
            path: "/api/tasks/01930d2c-6c4b-7d5e-8f00-0123456789ab/children?limit=7&status=failed&status=running&step=a%26b"
                .to_owned(),
            body: None,
        };
        assert_eq!(request.unwrap(), expected);
    }

    /// Wherever it stands in a schema.
    fn each_schema(of: &Value, found: &mut Vec<Value>) {
        found.push(of.clone());
        for word in ["properties", "$defs"] {
            let named = of[word].as_object().into_iter().flatten();
            named.for_each(|(_, it)| each_schema(it, found));
        }
        for word in ["anyOf", "oneOf", "allOf"] {
            let several = of[word].as_array().into_iter().flatten();
            several.for_each(|it| each_schema(it, found));
        }
        for word in ["items", "additionalProperties"] {
            of.get(word)
                .into_iter()
                .for_each(|it| each_schema(it, found));
        }
    }

    #[test]
    fn the_schemas_of_tools_are_those_that_programs_for_models_read() {
        for tool in offered(ALL, &caller(Role::Admin, true), Some(Role::Admin)) {
            let listed = tool.listed();
            for kind in ["inputSchema", "outputSchema"] {
                let Some(schema) = listed.get(kind) else {
                    continue;
                };
                let mut all = Vec::new();
                each_schema(schema, &mut all);
                for it in all {
                    let format = it["format"].as_str().unwrap_or_default();
                    let is_read = it != Value::Bool(true)
                        && !it["type"].is_array()
                        && !format.contains("int");
                    assert!(is_read, "{}: {it}", tool.name());
                }
            }
        }
        let mut schema = json!({ "type": ["string", "null"], "description": "Why", "maxLength": 9, "format": "date" });
        portable(&mut schema);
        let expected = json!({
            "description": "Why",
            "anyOf": [{ "type": "string", "maxLength": 9, "format": "date" }, { "type": "null" }],
        });
        assert_eq!(schema, expected);
    }

    #[test]
    fn each_preview_is_an_address_of_what_the_operation_names_or_a_flag_of_it() {
        for declared in ALL {
            let Some(preview) = declared.about.preview else {
                continue;
            };
            let of = |path: &str| path.matches('{').count();
            let id = declared.about.id;
            match preview {
                Preview::At(path) => assert_eq!(of(path), of(declared.about.path), "{id}"),
                Preview::Flag(field) => {
                    let schema = declared.input.map(|it| it.whole_schema());
                    let field = &schema.expect("an input")["properties"][field];
                    assert_eq!(field["type"], "boolean", "{id}");
                }
            }
            assert!(declared.about.changes(), "{id}");
        }
    }
}
