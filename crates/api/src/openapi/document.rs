//! The document as a whole: each row of the table of routes becomes an operation. Must not know a route.

use super::operation::{Content, Header, Json, Operation, PerType, Reply, schema_of};
use super::problems::Problems;
use super::schemas::Schemas;
use super::task_types;
use super::words::words;
use counterstep_contracts::access::Role;
use counterstep_contracts::operation::{Chapter, Param, QueryParam};
use counterstep_contracts::{ProblemCode, ScheduleSpec, Tenant};
use counterstep_steps::{Registry, TaskType};
use serde_json::{Map, Value, json};

pub(super) const REQUEST_ID: &str = "#/components/headers/X-Request-Id";
pub(super) const RETRY_AFTER: &str = "#/components/headers/Retry-After";

const ABOUT: &str = "Tasks of several steps that finish or are undone. Times are RFC 3339 in UTC, sizes bytes, durations \
    texts as `30s`. What can be read with GET also takes HEAD. A parameter of a query that a route does not know is refused, \
    and so is a field that a body does not have. Every refusal is a problem document (RFC 9457) with a stable `code`. \
    Counters are 64 bits wide.";

/// A row of the table of routes.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    /// `GET` includes HEAD.
    pub(crate) method: &'static str,
    /// With `{name}` for what varies.
    pub(crate) path: &'static str,
    /// The role that it needs; `None`: it is open to all.
    pub(crate) role: Option<Role>,
    /// Whether it needs that role in the default tenant.
    pub(crate) is_of_installation: bool,
    /// Whether it answers under any `Host`.
    pub(crate) any_host: bool,
    pub(crate) operation: Operation,
}

/// What a document is made of.
pub(crate) struct Document<'a> {
    pub(crate) rows: &'a [Row],
    pub(crate) registry: &'a Registry,
    /// Whether callers are authenticated.
    pub(crate) has_callers: bool,
    /// What they send in `Authorization: Bearer`; `None`: they send nothing there.
    pub(crate) credential: Option<&'static str>,
}

impl Document<'_> {
    /// OpenAPI 3.1. Who serves it puts the path into `servers` below which the interface is mounted.
    pub(crate) fn build(&self) -> Value {
        let mut schemas = Schemas::new();
        let mut problems = Problems::new(&mut schemas);
        let mut paths: Map<String, Value> = Map::new();
        let mut add = |path: &str, method: &str, operation: Value| {
            let path = paths.entry(path.to_owned()).or_insert_with(|| json!({}));
            path[method.to_lowercase()] = operation;
        };
        for row in self.rows {
            match row.operation.per_type {
                None => {
                    add(
                        &path_of(row),
                        row.method,
                        self.operation(row, &mut schemas, &mut problems),
                    );
                }
                Some(per_type) => {
                    for task_type in self.newest() {
                        if per_type == PerType::Batch && task_type.begins_with_uploads() {
                            continue;
                        }
                        let path = row.path.replace("{id}", &task_type.decl.route());
                        let general = self.operation(row, &mut schemas, &mut problems);
                        let operation =
                            task_types::operation(general, &task_type, per_type, &mut schemas);
                        add(&path, row.method, operation);
                    }
                }
            }
        }
        let tags = Chapter::ALL.map(|chapter| {
            let (name, about) = chapter.texts();
            json!({ "name": name, "description": about })
        });
        let mut document = json!({
            "openapi": "3.1.0",
            "info": {
                "title": "Counterstep",
                "version": env!("CARGO_PKG_VERSION"),
                "description": ABOUT,
                "license": { "name": "Apache-2.0 OR MIT", "identifier": "Apache-2.0 OR MIT" },
            },
            "servers": [{ "url": "/" }],
            "tags": tags,
            "paths": paths,
            "components": { "headers": {
                "X-Request-Id": {
                    "description": "The id of the request; each line of the log that it led to has it",
                    "required": true,
                    "schema": { "type": "string" },
                },
                "Retry-After": {
                    "description": "When to come again, in seconds",
                    "schema": { "type": "integer", "minimum": 0 },
                },
            }},
        });
        document["components"]["responses"] = Value::Object(problems.into_answers());
        if let Some(credential) = self.credential {
            document["components"]["securitySchemes"] = json!({ "key": {
                "type": "http",
                "scheme": "bearer",
                "description": format!(
                    "{credential}. A route names the role that it needs at least: read, submit, operate or admin"
                ),
            }});
        }
        schemas.complete(&mut document);
        document
    }

    /// The newest version of each type, by name.
    fn newest(&self) -> impl Iterator<Item = TaskType> {
        let routes = self.registry.iter().map(|it| it.decl.route());
        let mut routes: Vec<_> = routes.collect();
        routes.dedup();
        let newest = |route: String| self.registry.by_route(&route);
        routes.into_iter().filter_map(newest)
    }

    fn operation(&self, row: &Row, schemas: &mut Schemas, problems: &mut Problems) -> Value {
        let of = &row.operation;
        let parameters = |of: &[Param], place: &str| {
            of.iter().map(|it| parameter(it, place)).collect::<Vec<_>>()
        };
        let declared = of.declared_query.map_or_else(Vec::new, |of| of());
        let parameters = [
            parameters(of.path, "path"),
            parameters(of.query, "query"),
            declared.into_iter().map(declared_parameter).collect(),
            parameters(of.headers, "header"),
        ];
        let mut operation = json!({
            "operationId": of.id,
            "tags": [of.chapter.texts().0],
            "summary": of.summary,
            "parameters": parameters.concat(),
        });
        if let Some(words) = words(row.path, of) {
            operation["x-words"] = json!(words);
        }
        if let Some(body) = &of.body {
            let schema = schemas.sent(body.schema);
            let mut content = json!({ "schema": schema, "example": (body.example)() });
            // A request of one of the types is in it.
            if content["schema"] == schemas.sent(schema_of::<ScheduleSpec>) {
                task_types::schedule(&mut content, self.newest(), schemas);
            }
            operation["requestBody"] = json!({ "required": !of.body_is_optional, "content": { "application/json": content } });
        }
        let mut responses = Map::new();
        for reply in of.all_replies() {
            responses.insert(reply.status.to_string(), answer(reply, schemas));
        }
        for (status, problem) in problems.of(&self.problems(row)) {
            responses.insert(status, problem);
        }
        operation["responses"] = Value::Object(responses);
        if let Some(role) = row.role.filter(|_| self.has_callers) {
            let within = match row.is_of_installation {
                true => format!(" in the tenant `{}`", Tenant::default()),
                false => String::new(),
            };
            operation["description"] = json!(format!("Needs the role `{role}`{within}."));
            if self.credential.is_some() {
                operation["security"] = json!([{ "key": [role.as_str()] }]);
            }
        } else if self.credential.is_some() {
            operation["security"] = json!([]);
        }
        operation
    }

    /// Those that the route names, and those that come with its method, access and body.
    fn problems(&self, row: &Row) -> Vec<ProblemCode> {
        use ProblemCode as C;
        let mut codes = row.operation.problems.to_vec();
        codes.extend([C::Internal, C::AddressTooLong, C::HeaderTooLarge]);
        if !row.any_host {
            codes.push(C::HostNotAllowed);
        }
        if row.role.is_some() {
            codes.extend([C::InvalidRequest, C::Unavailable, C::StorageFull]);
            if self.has_callers {
                codes.extend([
                    C::MalformedAuthorization,
                    C::Unauthenticated,
                    C::Forbidden,
                    C::TooManyRequests,
                ]);
            }
        }
        if row.method != "GET" {
            codes.push(C::CrossSite);
        }
        if row.operation.body.is_some() || row.operation.per_type.is_some() {
            codes.extend([C::MalformedBody, C::SlowBody]);
            codes.extend([C::TooLarge, C::UnsupportedMediaType]);
        }
        codes
    }
}

/// The address of a row, with `{id}` called as the document calls it.
fn path_of(row: &Row) -> String {
    match row.operation.path.first() {
        Some(first) => row.path.replacen("{id}", &format!("{{{}}}", first.name), 1),
        None => row.path.to_owned(),
    }
}

fn parameter(of: &Param, place: &str) -> Value {
    let mut parameter = json!({
        "name": of.name,
        "in": place,
        "description": of.about,
        "schema": (of.schema)(),
    });
    if place == "path" {
        parameter["required"] = json!(true);
    }
    let kind = &parameter["schema"]["type"];
    let example = if kind == "array" {
        json!([of.example])
    } else if kind == "integer" || kind[0] == "integer" {
        of.example
            .parse::<i64>()
            .map_or(Value::Null, |it| json!(it))
    } else {
        json!(of.example)
    };
    parameter["example"] = example;
    parameter
}

fn declared_parameter(of: QueryParam) -> Value {
    json!({
        "name": of.name,
        "in": "query",
        "description": of.about,
        "schema": of.schema,
        "example": of.example,
    })
}

fn answer(of: &Reply, schemas: &mut Schemas) -> Value {
    let mut headers = json!({ "X-Request-Id": { "$ref": REQUEST_ID } });
    for Header {
        name,
        about,
        is_always,
    } in of.headers
    {
        headers[*name] = if *name == "Retry-After" {
            json!({ "$ref": RETRY_AFTER })
        } else {
            let schema = json!({ "type": "string" });
            json!({ "description": about, "required": is_always, "schema": schema })
        };
    }
    let mut answer = json!({ "description": of.about, "headers": headers });
    for link in of.links {
        let parameters = json!({ link.parameter: link.value });
        answer["links"][link.operation] =
            json!({ "operationId": link.operation, "parameters": parameters });
    }
    match &of.content {
        Content::Nothing => {}
        Content::Json(Json {
            schema, example, ..
        }) => {
            let schema = schemas.answered(*schema);
            answer["content"] =
                json!({ "application/json": { "schema": schema, "example": example() } });
        }
        Content::Events { data, example } => {
            let data: Vec<Value> = data.iter().map(|of| schemas.answered(*of)).collect();
            // The stream is a text; OpenAPI 3.1 has no word for the schema of an event in it.
            let content = json!({ "x-event-data": { "anyOf": data }, "example": example });
            answer["content"] = json!({ "text/event-stream": content });
        }
        Content::Text {
            media_type,
            example,
        } => {
            let mut content = json!({ "schema": { "type": "string" } });
            if let Some(example) = example {
                content["example"] = json!(example);
            }
            answer["content"] = json!({ *media_type: content });
        }
    }
    answer
}
