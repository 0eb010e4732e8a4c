//! Clients that others generate from the document of the API: each is made, and makes a call. Must not test the API itself.

use counterstep_tests::command::{to_its_end_within, without_settings};
use counterstep_tests::place::Place;
use counterstep_tests::program::target_folder;
use counterstep_tests::services;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// On a busy machine; alone each takes seconds.
const LIMIT: Duration = Duration::from_secs(300);

/// The document of the API, in a file of this place.
async fn document(place: &Place, api: &counterstep_tests::api::Api) {
    let answer = api.request(reqwest::Method::GET, "/api/openapi.json");
    let answer = answer.send().await.expect("an answer");
    let text = answer.text().await.expect("a document");
    std::fs::write(place.path().join("openapi.json"), text).expect("a file");
}

/// Runs a command in a place to its end, and gives what it says.
fn said(place: &Place, command: Command) -> String {
    let ended = to_its_end_within(LIMIT, place.path(), command);
    ended.assert_code(0);
    ended.stdout.clone() + &ended.stderr
}

fn tool(name: &str) -> std::path::PathBuf {
    let folder = target_folder().join("tools").join(name);
    assert!(
        folder.is_dir(),
        "{} is missing; `cargo xtask test` installs it",
        folder.display()
    );
    folder
}

/// Pauses a queue with a type, and lists the queues.
const IN_PYTHON: &str = r#"
import sys
from generated import Client
from generated.api.task_types import list_queues, pause_queue
from generated.models import QueueRequest

client = Client(base_url=sys.argv[1], raise_on_unexpected_status=True)
paused = pause_queue.sync("orders", client=client, body=QueueRequest(note="a test"))
listed = list_queues.sync(client=client)
print(paused.name, paused.paused.note, sorted(it.name for it in listed.items if it.paused))
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_python_client_that_openapi_python_client_makes_pauses_a_queue() {
    let place = Place::new();
    let served = services::dev(&place, &[]);
    document(&place, &served.api).await;
    let tools = tool("openapi-python-client");
    let python = |arguments: &[&str]| {
        let mut python = without_settings("python3");
        let path = std::env::var("PATH").unwrap_or_default();
        python
            .args(arguments)
            .env("PYTHONPATH", &tools)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            // It formats what it makes with a program that it looks for there.
            .env("PATH", format!("{}:{path}", tools.join("bin").display()));
        python
    };
    let made = said(
        &place,
        python(&[
            "-m",
            "openapi_python_client",
            "generate",
            "--path",
            "openapi.json",
            "--meta",
            "none",
            "--output-path",
            "generated",
        ]),
    );
    // A file has whichever type its step gave it, and a client of its own kind.
    let of_files = |line: &&str| line.contains("/links/") || line.contains("/result/");
    let warnings = made.lines().filter(|line| line.starts_with("WARNING"));
    let others: Vec<_> = warnings.filter(|line| !of_files(line)).collect();
    assert!(others.is_empty() && !made.contains("ERROR"), "{made}");
    std::fs::write(place.path().join("call.py"), IN_PYTHON).expect("a program");
    let called = said(&place, python(&["call.py", served.api.url()]));
    assert_eq!(called, "orders a test ['orders']\n", "{made}");
    assert!(served.process.stop().success());
}

/// The same, with types that the compiler checks.
const IN_TYPESCRIPT: &str = r#"
import createClient from "openapi-fetch";
import type { paths } from "./generated";
declare const process: { argv: string[] };

const client = createClient<paths>({ baseUrl: process.argv[2] });
const { data: paused, error } = await client.POST("/api/queues/{name}/pause", {
  params: { path: { name: "orders" } },
  body: { note: "a test" },
});
if (error) throw new Error(error.detail ?? error.title);
const { data: listed } = await client.GET("/api/queues");
const names = listed!.items.filter((it) => it.paused).map((it) => it.name);
console.log(paused.name, paused.paused!.note, names.join());
// @ts-expect-error: a note is a text.
void (() => client.POST("/api/queues/{name}/pause", { params: { path: { name: "orders" } }, body: { note: 1 } }));
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_typescript_client_that_openapi_typescript_makes_pauses_a_queue() {
    let place = Place::new();
    let served = services::dev(&place, &[]);
    document(&place, &served.api).await;
    let modules = tool("openapi-typescript").join("node_modules");
    std::os::unix::fs::symlink(&modules, place.path().join("node_modules")).expect("a link");
    let node = |program: &Path, arguments: &[&str]| {
        let mut node = without_settings("node");
        node.arg(program).args(arguments);
        node
    };
    let made = said(
        &place,
        node(
            &modules.join("openapi-typescript/bin/cli.js"),
            &["openapi.json", "--output", "generated.d.ts"],
        ),
    );
    std::fs::write(place.path().join("call.ts"), IN_TYPESCRIPT).expect("a program");
    std::fs::write(place.path().join("package.json"), r#"{"type":"module"}"#).expect("a package");
    let compiled = said(
        &place,
        node(
            &modules.join("typescript/bin/tsc"),
            &[
                "--strict",
                "--target",
                "es2022",
                "--module",
                "es2022",
                "--moduleResolution",
                "bundler",
                "--lib",
                "es2022,dom",
                "call.ts",
                "generated.d.ts",
            ],
        ),
    );
    let called = said(&place, node(Path::new("call.js"), &[served.api.url()]));
    assert_eq!(called, "orders a test orders\n", "{made}{compiled}");
    assert!(served.process.stop().success());
}
