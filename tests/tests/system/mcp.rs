//! `counterstep mcp`: operations as tools of the Model Context Protocol, by its messages over standard input and output.

use counterstep_tests::command::{counterstep, to_its_end_within, without_settings};
use counterstep_tests::place::Place;
use counterstep_tests::program::{program, target_folder};
use counterstep_tests::services::{self, QUICK};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

pub(super) struct Mcp {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    id: u64,
}

impl Mcp {
    fn start(place: &Place, url: &str, flags: &[&str]) -> Self {
        Self::of(counterstep(), place, &[&["--url", url], flags].concat())
    }

    /// With `mcp` of this program.
    pub(super) fn of(mut program: Command, place: &Place, flags: &[&str]) -> Self {
        let mut child = program
            .current_dir(place.path())
            .arg("mcp")
            .args(flags)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program");
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let mut mcp = Self {
            child,
            input,
            output: BufReader::new(output.expect("its output")),
            id: 0,
        };
        let hello = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": { "name": "pen\n", "version": "1" },
        });
        let answer = mcp.ask("initialize", &hello);
        assert_eq!(answer["result"]["protocolVersion"], "2025-06-18");
        mcp.write(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        mcp
    }

    fn write(&mut self, line: &str) {
        let input = self.input.as_mut().expect("its input");
        writeln!(input, "{line}").expect("its input");
    }

    fn read(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("its output");
        serde_json::from_str(&line).expect("JSON")
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.id += 1;
        let message =
            json!({ "jsonrpc": "2.0", "id": self.id, "method": method, "params": params });
        self.write(&message.to_string());
        let answer = self.read();
        assert_eq!(answer["id"], self.id);
        answer
    }

    pub(super) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.ask(
            "tools/call",
            &json!({ "name": tool, "arguments": arguments }),
        )
    }

    pub(super) fn tools(&mut self) -> Vec<Value> {
        let listed = self.ask("tools/list", &json!({}));
        listed["result"]["tools"].as_array().expect("tools").clone()
    }

    /// Its input ends, and so does it.
    pub(super) fn end(mut self) {
        self.input = None;
        assert!(self.child.wait().expect("its end").success());
    }
}

fn is_paused(mcp: &mut Mcp) -> bool {
    let listed = mcp.call("listQueues", &json!({}));
    let queues = &listed["result"]["structuredContent"]["items"];
    let queues = queues.as_array().expect("queues");
    let orders = queues.iter().find(|it| it["name"] == "orders");
    !orders.expect("the queue")["paused"].is_null()
}

#[test]
fn a_model_reads_and_changes_what_it_was_shown_and_what_was_confirmed() {
    let place = Place::new();
    let served = services::dev(&place, QUICK);
    let url = served.api.url();

    let mut reader = Mcp::start(&place, url, &[]);
    let tools = reader.tools();
    let reads = |tool: &Value| tool["annotations"]["readOnlyHint"] == true;
    assert!(tools.iter().all(reads), "{tools:#?}");
    assert!(!is_paused(&mut reader));
    let pause = json!({ "name": "orders", "note": "the bank moves" });
    let refused = reader.call("pauseQueue", &pause);
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    reader.end();

    let mut mcp = Mcp::start(&place, url, &["--allow", "admin"]);
    let shown = mcp.call("pauseQueue", &pause);
    let shown = &shown["result"]["structuredContent"];
    assert_eq!(shown["would"]["path"], "/api/queues/orders/pause");
    assert!(!is_paused(&mut mcp));
    let with = |arguments: &Value, token: &Value| {
        let mut arguments = arguments.clone();
        arguments["confirm"] = token.clone();
        arguments
    };
    // For another queue than was shown, and with the token of nothing: shown again.
    let other = json!({ "name": "files", "note": "the bank moves" });
    for (arguments, token) in [(&other, &shown["confirm"]), (&pause, &json!("0"))] {
        let again = mcp.call("pauseQueue", &with(arguments, token));
        let text = again["result"]["content"][0]["text"]
            .as_str()
            .expect("a text");
        assert!(text.starts_with("Nothing was changed: "), "{text}");
        assert!(!is_paused(&mut mcp));
    }
    let shown = mcp.call("pauseQueue", &pause);
    let token = &shown["result"]["structuredContent"]["confirm"];
    let paused = mcp.call("pauseQueue", &with(&pause, token));
    let by = &paused["result"]["structuredContent"]["paused"]["note"];
    assert_eq!(by, "the bank moves (by mcp:pen)", "{paused}");
    assert!(is_paused(&mut mcp));
    // A token holds once.
    let again = mcp.call("pauseQueue", &with(&pause, token));
    assert!(again["result"]["structuredContent"]["would"].is_object());

    let unknown = json!({ "name": "unheard-of", "note": "x" });
    let shown = mcp.call("resumeQueue", &unknown);
    let token = shown["result"]["structuredContent"]["confirm"].clone();
    let refused = mcp.call("resumeQueue", &with(&unknown, &token));
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    mcp.write("no JSON");
    assert_eq!(mcp.read()["error"]["code"], -32700);
    assert_eq!(mcp.ask("nothing", &json!({}))["error"]["code"], -32601);
    mcp.end();
}

/// With the library of the protocol, which checks each answer against the schema of its tool.
const WITH_LIBRARY: &str = r#"
import asyncio, sys
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

async def main(program, url):
    server = StdioServerParameters(command=program, args=["mcp", "--url", url, "--allow", "admin"])
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        hello = await session.initialize()
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
        print(hello.protocol_version, hello.server_info.name, len(tools) > 40)
        for name, tool in sorted(tools.items()):
            if tool.annotations.read_only_hint and not tool.input_schema["required"]:
                answer = await session.call_tool(name, {})
                assert not answer.is_error, (name, answer)
        pause = {"name": "orders", "note": "the bank moves"}
        shown = await session.call_tool("pauseQueue", pause)
        assert shown.structured_content["would"]["path"] == "/api/queues/orders/pause", shown
        done = await session.call_tool("pauseQueue", {**pause, "confirm": shown.structured_content["confirm"]})
        print(done.structured_content["paused"]["note"])
        cancel = {"action": "cancel", "filter": {"type": "PlaceOrder"}, "note": "a wrong price"}
        shown = await session.call_tool("startBulkOperation", cancel)
        assert shown.structured_content["preview"]["count"] == 0, shown
        done = await session.call_tool("startBulkOperation", {**cancel, "confirm": shown.structured_content["confirm"]})
        print(done.structured_content["action"], done.structured_content["note"])

asyncio.run(main(*sys.argv[1:]))
"#;

#[test]
fn the_library_of_the_protocol_reads_all_lists_and_makes_what_it_was_shown() {
    let place = Place::new();
    let served = services::dev(&place, QUICK);
    let library = target_folder().join("tools/site-packages/mcp");
    assert!(library.is_dir(), "`cargo xtask test` installs it");
    let mut python = without_settings("python3");
    python
        .args(["-c", WITH_LIBRARY])
        .arg(program())
        .arg(served.api.url())
        .env("PYTHONPATH", library)
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let ended = to_its_end_within(Duration::from_secs(120), place.path(), python);
    ended.assert_code(0);
    assert_eq!(
        ended.stdout,
        "2025-11-25 counterstep True\nthe bank moves (by mcp:mcp)\ncancel a wrong price (by mcp:mcp)\n",
        "{ended:#?}"
    );
}
