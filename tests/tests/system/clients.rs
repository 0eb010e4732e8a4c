//! The clients for other languages: their own tests, against the program of this tree. Must not test
//! the API itself.

use counterstep_testkit::golden;
use counterstep_tests::command::{Ended, to_its_end_within, without_settings};
use counterstep_tests::generated;
use counterstep_tests::program::{program, target_folder};
use std::path::Path;
use std::time::Duration;

/// They upload and download, and wait for pauses between connections.
const LIMIT: Duration = Duration::from_secs(300);

/// Runs a command in the folder of a client.
fn test(client: &str, command: &[&str]) -> Ended {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../clients")
        .join(client);
    let mut tests = without_settings(command[0]);
    tests
        .args(&command[1..])
        .env("COUNTERSTEP_PROGRAM", program())
        // Where httpx is, which the client for asyncio needs: another tool needs it, too.
        .env(
            "PYTHONPATH",
            target_folder().join("tools/site-packages/openapi-python-client"),
        )
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let ended = to_its_end_within(LIMIT, &folder, tests);
    ended.assert_code(0);
    ended
}

#[test]
fn the_generated_calls_are_those_of_the_document() {
    let document = include_str!("../../../docs/openapi.json");
    let document = serde_json::from_str(document).expect("JSON");
    for (path, text) in generated::files(&document) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../clients")
            .join(path);
        let command =
            "test -p counterstep-tests --test system the_generated_calls_are_those_of_the_document";
        golden::compare(path, &text, command);
    }
}

#[test]
fn the_packages_have_their_licences() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (client, licence) in [
        ("python", "LICENSE-APACHE"),
        ("python", "LICENSE-MIT"),
        ("typescript", "LICENSE-APACHE"),
        ("typescript", "LICENSE-MIT"),
    ] {
        let of = |folder: &Path| std::fs::read(folder.join(licence)).expect("a licence");
        let copy = of(&top.join("clients").join(client));
        assert!(copy == of(&top), "clients/{client}/{licence} differs");
    }
    let packed = test("typescript", &["npm", "pack", "--dry-run", "--json"]);
    let packed: serde_json::Value = serde_json::from_str(&packed.stdout).expect("JSON");
    let files = packed[0]["files"].as_array().expect("files");
    let has = |path: &str| files.iter().any(|it| it["path"] == path);
    for file in [
        "README.md",
        "LICENSE-MIT",
        "LICENSE-APACHE",
        "src/index.js",
        "src/index.d.ts",
    ] {
        assert!(has(file), "{file}: {files:?}");
    }
    assert!(!has("tests/client.test.js"), "{files:?}");
}

#[test]
fn the_tests_of_the_python_client_pass() {
    let ended = test("python", &["python3", "-m", "unittest"]);
    // A run without tests ends with 0 too, and `OK (skipped=1)` is not enough.
    let has_run = ended.stderr.contains("Ran ") && !ended.stderr.contains("Ran 0 ");
    assert!(has_run && ended.stderr.ends_with("\nOK\n"), "{ended:#?}");
}

#[test]
fn the_tests_of_the_typescript_client_pass() {
    let ended = test("typescript", &["node", "--test", "--test-reporter=tap"]);
    let counts = |line: &str| ended.stdout.lines().any(|it| it == line);
    let has_run = !counts("# tests 0") && counts("# fail 0") && counts("# skipped 0");
    assert!(has_run, "{ended:#?}");
}
