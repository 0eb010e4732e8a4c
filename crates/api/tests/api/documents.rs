//! The OpenAPI document: that it is the committed one, that it is whole, and who gets it.

use crate::site::Site;
use counterstep_api::{AuthSettings, RouteView, all_routes, openapi_document};
use counterstep_contracts::ProblemCode;
use counterstep_contracts::commands::with_commands;
use counterstep_testkit::golden;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

fn shipped() -> Value {
    openapi_document(&counterstep_tasks::tasks(), &AuthSettings::Keys)
}

/// Each operation with its method and path.
fn operations(document: &Value) -> Vec<(String, String, &Value)> {
    let paths = document["paths"].as_object().expect("paths");
    let mut operations = Vec::new();
    for (path, methods) in paths {
        for (method, operation) in methods.as_object().expect("methods") {
            operations.push((method.to_uppercase(), path.clone(), operation));
        }
    }
    operations
}

#[test]
fn the_document_is_what_the_code_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    golden::compare(
        path,
        &format!("{:#}\n", shipped()),
        "test -p counterstep-api --test api the_document_is_what_the_code_says",
    );
}

/// An address without the names of what varies in it.
fn unnamed(path: &str) -> String {
    let parts = path.split('/');
    let parts = parts.map(|it| if it.starts_with('{') { "{}" } else { it });
    parts.collect::<Vec<_>>().join("/")
}

/// What the document has of a route: its address there, and the operation. Of a route of task types, that of this one.
pub(crate) fn operation<'a>(
    document: &'a Value,
    route: RouteView,
    task_type: &str,
) -> (String, &'a Value) {
    let path = match (route.method, route.path) {
        ("POST", "/api/tasks/{id}" | "/api/tasks/{id}/batch") => {
            route.path.replace("{id}", task_type)
        }
        (_, path) => unnamed(path),
    };
    let is_of_route = |(method, own, _): &(String, String, _)| {
        method == route.method && (*own == path || unnamed(own) == path)
    };
    let found = operations(document).into_iter().find(is_of_route);
    let (_, path, operation) = found.unwrap_or_else(|| panic!("{route:?}"));
    (path, operation)
}

#[test]
fn each_route_is_in_the_document_with_its_parameters_and_its_role() {
    let document = shipped();
    for route in all_routes() {
        let (path, operation) = operation(&document, route, "place-order");
        let in_path = operation["parameters"].as_array().expect("parameters");
        let in_path = in_path.iter().filter(|it| it["in"] == "path");
        let named: BTreeSet<_> = in_path.map(|it| it["name"].as_str().unwrap()).collect();
        let braces = path.split('{').skip(1);
        let expected = braces.map(|it| it.split('}').next().unwrap()).collect();
        assert_eq!(named, expected, "{route:?}");
        let role = operation["security"][0]["key"][0].as_str();
        assert_eq!(role, route.role.map(|role| role.as_str()), "{route:?}");
        let about = operation["description"].as_str().unwrap_or_default();
        let of_installation = about.contains("in the tenant `default`");
        assert_eq!(of_installation, route.is_of_installation, "{about}");
    }
}

#[test]
fn each_call_that_a_move_makes_is_in_the_document_with_its_role() {
    let document = shipped();
    let operations = operations(&document);
    let calls: Vec<_> = with_commands().collect();
    assert!(calls.len() >= 10, "{calls:?}");
    for call in calls {
        let is_it = |(_, _, it): &&(String, String, &Value)| it["operationId"] == call.id;
        let found = operations.iter().find(is_it);
        let (method, path, operation) = found.unwrap_or_else(|| panic!("{call:?}"));
        let role = operation["security"][0]["key"][0].as_str();
        assert_eq!(
            (method.as_str(), unnamed(path).as_str(), role),
            (
                call.verb.name(),
                &*unnamed(call.path),
                call.access.role().map(|it| it.as_str())
            ),
            "{call:?}"
        );
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        // One that also depends on the task types begins with what does not.
        let whole = schema.get("allOf").map_or(schema, |all| &all[0]);
        let schema = whole["$ref"].as_str().and_then(|it| it.rsplit('/').next());
        let parameters = operation["parameters"].as_array();
        let names: Vec<_> = parameters
            .into_iter()
            .flatten()
            .map(|it| &it["name"])
            .collect();
        for flag in call.command.expect("a command").flags {
            if method == "GET" {
                assert!(
                    names.iter().any(|it| **it == flag.field),
                    "{flag:?}: {names:?}"
                );
                continue;
            }
            let fields = &document["components"]["schemas"][schema.expect("a schema")];
            assert!(
                fields["properties"][flag.field].is_object(),
                "{flag:?}: {fields}"
            );
        }
    }
}

#[test]
fn each_body_has_an_example_and_each_operation_a_name_of_its_own() {
    let document = shipped();
    let mut ids = BTreeSet::new();
    for (method, path, operation) in operations(&document) {
        let id = operation["operationId"].as_str().expect("an id");
        assert!(ids.insert(id), "{id} is there twice");
        let responses = operation["responses"].as_object().expect("responses");
        let mut bodies = vec![&operation["requestBody"]];
        bodies.extend(responses.values());
        for (media_type, content) in bodies
            .iter()
            .filter_map(|it| it["content"].as_object())
            .flatten()
        {
            let has_example = content
                .get("example")
                .or_else(|| content.get("examples"))
                .is_some();
            // The bytes of a file.
            assert!(
                has_example || media_type == "*/*",
                "{method} {path}: {media_type}"
            );
        }
        for parameter in operation["parameters"].as_array().expect("parameters") {
            assert!(
                !parameter["example"].is_null(),
                "{method} {path}: {parameter}"
            );
        }
        assert!(
            responses.keys().any(|status| status.starts_with('2')),
            "{method} {path}"
        );
    }
}

#[test]
fn each_call_with_json_has_words_of_its_own() {
    let document = shipped();
    let mut seen = BTreeSet::new();
    for (method, path, operation) in operations(&document) {
        let words = &operation["x-words"];
        let is_word = |it: &Value| it.as_str().is_some_and(|it| !it.is_empty());
        if !words.is_null() {
            assert!(
                words
                    .as_array()
                    .is_some_and(|it| it.len() == 2 && it.iter().all(is_word)),
                "{words}"
            );
            assert!(seen.insert(words.to_string()), "{words} is there twice");
        }
        // By hand in the clients: submissions, files and their links, streams.
        let is_by_hand = operation["tags"][0] == "submitting"
            || ["/result/", "/links/", "/events", "openapi.json"]
                .iter()
                .any(|it| path.contains(it))
            || !path.starts_with("/api/");
        assert_eq!(words.is_null(), is_by_hand, "{method} {path}");
    }
    let pause = r#"["queues","pause"]"#;
    assert!(seen.contains(pause) && seen.len() >= 50, "{seen:?}");
}

#[test]
fn whatever_the_document_refers_to_is_in_it() {
    fn walk(value: &Value, document: &Value, seen: &mut usize) {
        match value {
            Value::Object(fields) => {
                if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
                    let pointer = reference.strip_prefix('#').expect("a reference within");
                    assert!(document.pointer(pointer).is_some(), "{reference}");
                    *seen += 1;
                }
                fields
                    .values()
                    .for_each(|inner| walk(inner, document, seen));
            }
            Value::Array(items) => items.iter().for_each(|inner| walk(inner, document, seen)),
            _ => {}
        }
    }
    let document = shipped();
    let mut seen = 0;
    walk(&document, &document, &mut seen);
    assert!(seen > 100, "{seen}");
}

#[test]
fn a_type_without_a_schema_takes_any_value_and_one_with_files_takes_a_form() {
    let document = openapi_document(&crate::types::all(), &AuthSettings::None);
    let body = |path: &str| &document["paths"][path]["post"]["requestBody"]["content"];
    let note = &body("/api/tasks/write-note")["application/json"]["schema"];
    assert!(
        note.get("type").is_none() && note["description"].is_string(),
        "{note}"
    );
    assert!(document["paths"]["/api/tasks/write-note/batch"].is_object());
    let document = shipped();
    let zip = &document["paths"]["/api/tasks/create-zip-from-files"]["post"]["requestBody"];
    let zip = &zip["content"]["multipart/form-data"];
    assert_eq!(zip["schema"]["additionalProperties"], false);
    assert_eq!(zip["schema"]["required"][0], "files");
    assert!(document["paths"]["/api/tasks/create-zip-from-files/batch"].is_null());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_document_and_its_page_are_served_with_the_types_of_the_process() {
    let site = Site::start().await;
    let document: Value = site.get("/api/openapi.json").await.json(200);
    assert_eq!(document["servers"][0]["url"], "/");
    assert!(document["paths"]["/api/tasks/write-note"]["post"].is_object());
    assert!(document["components"].get("securitySchemes").is_none());
    let page = site.get("/docs").await;
    page.assert_status(200);
    assert_eq!(
        page.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    let policy = page.header("content-security-policy").expect("a policy");
    assert!(
        policy.starts_with("default-src 'none'; style-src 'sha256-"),
        "{policy}"
    );
    let html = String::from_utf8(page.body).expect("UTF-8");
    assert!(html.contains("/api/tasks/write-note") && html.contains("docs?operation=getTask"));
    for foreign in [
        "<script",
        "http://",
        "https://unpkg",
        "<img",
        "<link",
        " src=",
    ] {
        assert!(!html.contains(foreign), "{foreign}");
    }
    site.get("/docs?x=1").await.problem(422, "invalid-request");
    for part in ["chapter", "operation", "schema"].map(|it| format!("{it}=unheard-of")) {
        let unknown = site.get(&format!("/docs?{part}")).await;
        unknown.problem(404, "no-such-route");
    }
    let html = async |query: &str| {
        let page = site.get(&format!("/docs?{query}")).await;
        page.assert_status(200);
        String::from_utf8(page.body).expect("UTF-8")
    };
    for tag in document["tags"].as_array().expect("chapters") {
        let name = tag["name"].as_str().expect("a name");
        let chapter = html(&format!("chapter={}", name.replace(' ', "%20"))).await;
        assert!(chapter.len() < 60_000, "{name}: {}", chapter.len());
    }
    let tasks = html("chapter=tasks").await;
    assert!(tasks.contains("id=\"getTask\"") && tasks.contains("docs?schema=TaskView"));
    assert!(html("operation=getTask").await.contains("id=\"getTask\""));
    assert!(html("schema=TaskView").await.contains("task_id"));
    let found = html("q=pause+QUEUE").await;
    assert!(found.contains("=pauseQueue\"") && !found.contains("=getTask\""));
    let script = html("q=%3Cscript%3E").await;
    assert!(script.contains("&lt;script&gt;") && !script.contains("<script"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_address_of_a_task_and_that_of_a_type_take_methods_of_their_own() {
    let site = Site::start().await;
    let of_type = site.get("/api/tasks/write-note").await;
    of_type.problem(405, "method-not-allowed");
    assert_eq!(of_type.header("allow"), Some("POST"));
    let task = "/api/tasks/01930d2c-6c4b-7d5e-8f00-0123456789ab";
    for (method, path, allowed) in [
        ("POST", task, "GET, HEAD, DELETE"),
        ("PUT", task, "GET, HEAD, DELETE"),
        ("OPTIONS", "/api/tasks/write-note", "POST"),
        ("PUT", "/api/tasks/neither", "GET, HEAD, POST, DELETE"),
    ] {
        let refused = site.send(site.request(method, path)).await;
        refused.problem(405, "method-not-allowed");
        assert_eq!(refused.header("allow"), Some(allowed), "{method} {path}");
    }
    site.post("/api/tasks/neither", "{}")
        .await
        .problem(404, "no-such-task-type");
    site.get("/api/tasks/neither")
        .await
        .problem(400, "malformed-parameter");
}

/// The rows of the tables below a heading: their cells.
fn rows_below<'a>(page: &'a str, heading: &str) -> Vec<Vec<&'a str>> {
    let (_, below) = page.split_once(heading).expect("the heading is there");
    let section = below.split("\n## ").next().unwrap_or_default();
    let lines = section.lines().filter(|line| line.starts_with("| "));
    lines
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect()
}

#[test]
fn each_problem_code_is_in_the_table_of_problems_with_its_status() {
    let page = include_str!("../../../../docs/http.md");
    let rows = rows_below(page, "\n## Problems\n");
    let told: BTreeSet<_> = rows
        .iter()
        .filter(|row| row[0].starts_with('`'))
        .map(|row| (row[0].trim_matches('`').to_owned(), row[1].to_owned()))
        .collect();
    let expected = ProblemCode::ALL
        .iter()
        .map(|code| (code.as_str().to_owned(), code.status().to_string()));
    assert_eq!(told, expected.collect());
}
