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

fn node(program: &Path, arguments: &[&str]) -> Command {
    let mut node = without_settings("node");
    node.arg(program).args(arguments);
    node
}

/// The compiler of TypeScript, on these files.
fn compiler(modules: &Path, files: &[&str]) -> Command {
    const HOW: [&str; 10] = [
        "--strict",
        "--skipDefaultLibCheck",
        "--target",
        "es2022",
        "--module",
        "es2022",
        "--moduleResolution",
        "bundler",
        "--lib",
        "es2022,dom",
    ];
    node(&modules.join("typescript/bin/tsc"), &[&HOW, files].concat())
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
    let tools = tool("site-packages/openapi-python-client");
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
    let made = said(
        &place,
        node(
            &modules.join("openapi-typescript/bin/cli.js"),
            &["openapi.json", "--output", "generated.d.ts"],
        ),
    );
    std::fs::write(place.path().join("call.ts"), IN_TYPESCRIPT).expect("a program");
    std::fs::write(place.path().join("package.json"), r#"{"type":"module"}"#).expect("a package");
    let compiled = said(&place, compiler(&modules, &["call.ts", "generated.d.ts"]));
    let called = said(&place, node(Path::new("call.js"), &[served.api.url()]));
    assert_eq!(called, "orders a test orders\n", "{made}{compiled}");
    assert!(served.process.stop().success());
}

/// Makes a client with openapi-generator, in the folder `generated`.
fn generate(place: &Place, generator: &str, properties: &str) -> String {
    let tools = tool("site-packages/openapi-generator");
    let mut python = without_settings("python3");
    python
        .args([
            "-c",
            "import sys; from openapi_generator_cli import run; sys.exit(run(sys.argv[1:]).returncode)",
            "generate",
            "--input-spec",
            "openapi.json",
        ])
        .args(["--generator-name", generator, "--output", "generated"])
        .arg(format!("--additional-properties={properties}"))
        .env("PYTHONPATH", &tools)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        // The client is made once: no compiler is worth its while.
        .env("JAVA_OPTS", "-XX:TieredStopAtLevel=1");
    let made = said(place, python);
    assert!(!made.contains("ERROR"), "{made}");
    made
}

const WITH_FETCH: &str = r#"
import { Configuration, TaskTypesApi } from "./generated/index";
declare const process: { argv: string[] };

const api = new TaskTypesApi(new Configuration({ basePath: process.argv[2] }));
const paused = await api.pauseQueue({ name: "orders", queueRequest: { note: "a test" } });
const listed = await api.listQueues();
const names = listed.items.filter((it) => it.paused).map((it) => it.name);
console.log(paused.name, paused.paused!.note, names.join());
// @ts-expect-error: a note is a text.
void (() => api.pauseQueue({ name: "orders", queueRequest: { note: 1 } }));
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_typescript_client_that_openapi_generator_makes_pauses_a_queue() {
    let place = Place::new();
    let served = services::dev(&place, &[]);
    document(&place, &served.api).await;
    let modules = tool("openapi-typescript").join("node_modules");
    // With the endings that modules of JavaScript are found by.
    let made = generate(&place, "typescript-fetch", "importFileExtension=.js");
    let call = WITH_FETCH.replace("/index\"", "/index.js\"");
    std::fs::write(place.path().join("call.ts"), call).expect("a program");
    std::fs::write(place.path().join("package.json"), r#"{"type":"module"}"#).expect("a package");
    let compiled = said(&place, compiler(&modules, &["call.ts"]));
    let called = said(&place, node(Path::new("call.js"), &[served.api.url()]));
    assert_eq!(called, "orders a test orders\n", "{made}{compiled}");
    assert!(served.process.stop().success());
}

const IN_GO: &str = r#"package main

import (
	"context"
	"fmt"
	"os"

	client "example.org/test/client"
)

func main() {
	settings := client.NewConfiguration()
	settings.Servers = client.ServerConfigurations{{URL: os.Args[1]}}
	api := client.NewAPIClient(settings).TaskTypesAPI
	body := client.NewQueueRequest("a test")
	paused, _, err := api.PauseQueue(context.Background(), "orders").QueueRequest(*body).Execute()
	if err != nil {
		panic(err)
	}
	listed, _, err := api.ListQueues(context.Background()).Execute()
	if err != nil {
		panic(err)
	}
	names := ""
	for _, queue := range listed.Items {
		if queue.HasPaused() {
			names += queue.Name
		}
	}
	reason := paused.GetPaused()
	fmt.Println(paused.Name, reason.GetNote(), names)
}
"#;

/// Where Debian has the sources of Go's packages.
const GO_PACKAGES: &str = "/usr/share/gocode/src";

#[tokio::test(flavor = "multi_thread")]
async fn a_go_client_that_openapi_generator_makes_pauses_a_queue() {
    let place = Place::new();
    let served = services::dev(&place, &[]);
    document(&place, &served.api).await;
    // Constants are of a package there, and two enumerations may have a word in common.
    let made = generate(
        &place,
        "go",
        "enumClassPrefix=true,packageName=client,withGoMod=false",
    );
    // In a folder of packages, so that nothing is fetched.
    let source = place.path().join("go/src/example.org/test");
    std::fs::create_dir_all(source.join("call")).expect("a folder");
    std::fs::rename(place.path().join("generated"), source.join("client")).expect("the client");
    // A defect of its template, of lists of files that need one: https://github.com/OpenAPITools/openapi-generator has the line.
    let submitting = source.join("client/api_submitting.go");
    let text = std::fs::read_to_string(&submitting).expect("the client");
    std::fs::write(&submitting, text.replace("len(*r.files)", "len(r.files)")).expect("the client");
    std::fs::write(source.join("call/main.go"), IN_GO).expect("a program");
    let mut go = without_settings("go");
    let packages = GO_PACKAGES.trim_end_matches("/src");
    // Compiled in the quickest way, and known again in another folder.
    go.args(["build", "-trimpath", "-gcflags=example.org/...=-N -l"])
        .args(["-o", "call", "example.org/test/call"])
        .env("GO111MODULE", "off")
        .env(
            "GOPATH",
            format!("{}:{packages}", place.path().join("go").display()),
        )
        .env("GOCACHE", target_folder().join("tools/go-cache"));
    said(&place, go);
    let mut call = without_settings(place.path().join("call"));
    call.arg(served.api.url());
    let called = said(&place, call);
    assert_eq!(called, "orders a test orders\n", "{made}");
    assert!(served.process.stop().success());
}
