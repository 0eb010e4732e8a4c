//! Operations are one list: one more in it is a route with its role, a part of the document, a command, a call of each client, a tool
//! and a form, and no other line knows it.

use super::mcp::Mcp;
use counterstep_tests::api::Api;
use counterstep_tests::command::{Ended, to_its_end, without_settings};
use counterstep_tests::generated;
use counterstep_tests::place::Place;
use counterstep_tests::process::{Launch, Process};
use counterstep_tests::services::after;
use reqwest::Method;
use reqwest::header::COOKIE;
use serde_json::{Value, json};
use std::path::PathBuf;

/// The product's list, and one operation more.
const PROGRAM: &str = env!("CARGO_BIN_EXE_one_operation");

const PATH: &str = "/api/lamps/{name}/light";

fn run(place: &Place, arguments: &[&str]) -> Ended {
    let mut command = without_settings(PROGRAM);
    command.args(arguments);
    to_its_end(place.path(), command)
}

/// A key of this role, in a file of its name.
fn key(place: &Place, role: &str) -> String {
    let data = place.data();
    let data = ["keys", "--data-dir", data.to_str().expect("UTF-8")];
    let make = ["create", "--subject", "kim", "--role", role];
    let made = run(place, &[&data[..], &make].concat());
    let key = made.assert_code(0).stdout.trim().to_owned();
    std::fs::write(place.path().join(role), &key).expect("a file");
    key
}

fn api(place: &Place) -> (Process, Api) {
    let data = place.data();
    let data = data.to_str().expect("UTF-8");
    let arguments = [
        "api",
        "--listen",
        "127.0.0.1:0",
        "--auth",
        "keys",
        "--data-dir",
        data,
    ];
    let launch = Launch {
        program: PathBuf::from(PROGRAM),
        arguments: arguments.map(str::to_owned).to_vec(),
        variables: vec![("PATH".to_owned(), std::env::var("PATH").expect("a path"))],
        user: None,
    };
    let mut process = Process::launch(place, &launch);
    let address = process.says("its address", |said| after(said, "address=", '\n'));
    (process, Api::at(&address))
}

#[tokio::test]
async fn one_operation_more_in_the_list_is_a_route_a_command_a_form_a_tool_and_in_document_and_clients()
 {
    let place = Place::new();
    let [submits, operates] = ["submit", "operate"].map(|role| key(&place, role));
    let (_process, api) = api(&place);

    // The route, with its role.
    let path = PATH.replace("{name}", "a%20b");
    let note = json!({ "note": "it is dark" });
    for (key, status) in [(None, 401), (Some(&submits), 403), (Some(&operates), 200)] {
        let api = key.map_or(api.clone(), |key| api.clone().with_key(key));
        let sent = api.request(Method::POST, &path).json(&note).send().await;
        let answer = sent.expect("an answer");
        assert_eq!(answer.status(), status);
        if status == 200 {
            let answer: Value = answer.json().await.expect("JSON");
            let expected =
                json!({ "since": "a b shines", "by": "operator:kim", "note": "it is dark" });
            assert_eq!(answer, expected);
        }
    }

    // The document, and what the clients of other languages are made of it.
    let operator = api.clone().with_key(&operates);
    let request = operator.request(Method::GET, "/api/openapi.json");
    let document = request.send().await.expect("an answer");
    let document: Value = document.json().await.expect("JSON");
    let operation = &document["paths"][PATH]["post"];
    assert_eq!(operation["operationId"], "lightLamp");
    assert_eq!(operation["description"], "Needs the role `operate`.");
    let files = generated::files(&document);
    for (file, call) in [
        (
            "_operations.py",
            "    def light(self, name: str, *, note: str",
        ),
        (
            "operations.js",
            "    light: { method: \"POST\", path: \"/api/lamps/{name}/light\"",
        ),
        ("operations.d.ts", "export interface LampsCalls {"),
    ] {
        let of_file = files.iter().find(|(path, _)| path.ends_with(file));
        let text = &of_file.expect("a file").1;
        assert!(text.contains(call), "{file}");
    }

    // The command.
    let help = run(&place, &["lamps", "light", "--help"]);
    let help = &help.assert_code(0).stdout;
    assert!(
        help.contains("Light a lamp") && help.contains("--note <NOTE>"),
        "{help}"
    );
    let of_key = ["--url", api.url(), "--token-file", "operate"];
    let light = ["lamps", "light", "a b", "--note", "why", "--actor", "kim"];
    let lit = run(&place, &[&light[..], &of_key].concat());
    let lit: Value = serde_json::from_str(&lit.assert_code(0).stdout).expect("JSON");
    assert_eq!(
        (&lit["since"], &lit["note"]),
        (&json!("a b shines"), &json!("why (by kim)"))
    );

    // The tool.
    let mut mcp = Mcp::of(
        without_settings(PROGRAM),
        &place,
        &[&of_key[..], &["--allow", "operate"]].concat(),
    );
    let tools = mcp.tools();
    let tool = tools.iter().find(|tool| tool["name"] == "lightLamp");
    assert_eq!(tool.expect("a tool")["title"], "Light a lamp");
    let shown = mcp.call("lightLamp", &json!({ "name": "b", "note": "why" }));
    let token = &shown["result"]["structuredContent"]["confirm"];
    let lit = mcp.call(
        "lightLamp",
        &json!({ "name": "b", "note": "why", "confirm": token }),
    );
    assert_eq!(
        lit["result"]["structuredContent"]["note"],
        "why (by mcp:pen)"
    );
    mcp.end();

    // The form.
    let page = |key: &str| {
        let request = api.request(Method::GET, "/ui/lamps/a%20b/light");
        request
            .header(COOKIE, format!("counterstep_credential={key}"))
            .send()
    };
    let refused = page(&submits).await.expect("an answer");
    assert_eq!(refused.status(), 403);
    let form = page(&operates)
        .await
        .expect("an answer")
        .text()
        .await
        .expect("a text");
    for part in [
        "What would happen if I light a b?",
        "It shines.",
        "<textarea id=\"note\"",
        "counterstep lamps light 'a b' --note why",
    ] {
        assert!(form.contains(part), "{part}: {form}");
    }
}
