//! A program from nothing: `counterstep new` into a temporary folder, its own CI's commands there,
//! and the program served and deployed by the files that came with it.

use counterstep_testkit::servers::Postgres;
use counterstep_tests::api::Api;
use counterstep_tests::command::{run, to_its_end};
use counterstep_tests::deployment::{Deployment, Submission, run_pods, run_stack, run_units};
use counterstep_tests::manifests::{Manifests, documents};
use counterstep_tests::place::Place;
use counterstep_tests::process::{Launch, Process};
use counterstep_tests::program::{program, target_folder, without_package};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;

const NAME: &str = "lamp-shop";

/// The commands of its CI that build something.
const BUILDS: [&str; 2] = [
    "cargo test --features servers",
    "cargo build --features servers",
];

/// This checkout.
fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// What makes a build of the new crate share what the tests' own build has made: their profile, for all that it builds. The crates of
/// this repository are another workspace's there and are not shared, so they are built in the quickest way.
fn profile() -> String {
    let manifest = std::fs::read_to_string(top().join("Cargo.toml")).expect("the manifest");
    let between = |start: &str, end: &str| {
        let (_, behind) = manifest.split_once(start).expect("a profile");
        behind
            .split_once(end)
            .expect("the one behind it")
            .0
            .to_owned()
    };
    let all = "[profile.test.package.\"*\"]";
    let of_dev = between("\n[profile.dev]", "\n[profile.test]");
    let of_tests = between(&format!("\n{all}"), "\n[profile.chaos]");
    let of_tests = format!("{all}{of_tests}").replace("[profile.test.", "[profile.dev.");
    let ours = std::fs::read_dir(top().join("crates")).expect("the crates");
    let ours = ours.flatten().map(|it| it.file_name()).map(|name| {
        let name = match name.to_str().expect("a name") {
            "counterstep" => "counterstep".to_owned(),
            of => format!("counterstep-{of}"),
        };
        format!("[profile.dev.package.{name}]\nopt-level = 0\n")
    });
    format!(
        "[profile.dev]{of_dev}\n{of_tests}\n{}",
        ours.collect::<String>()
    )
}

/// What its author adds to the crate: a task type with a pool of connections, a signal and a child, its
/// sweep, a command that submits in a transaction of its own, and two types with queues and a table of their own.
const ADDED: [(&str, &str); 7] = [
    (
        "src/booking.rs",
        include_str!("../lamp_shop/src/booking.rs"),
    ),
    ("src/desk.rs", include_str!("../lamp_shop/src/desk.rs")),
    ("src/seats.rs", include_str!("../lamp_shop/src/seats.rs")),
    (
        "src/tickets.rs",
        include_str!("../lamp_shop/src/tickets.rs"),
    ),
    ("src/lib.rs", include_str!("../lamp_shop/src/lib.rs")),
    ("src/main.rs", include_str!("../lamp_shop/src/main.rs")),
    (
        "tests/booking.rs",
        include_str!("../lamp_shop/tests/booking.rs"),
    ),
];

/// What the crate's manifest and its compose file get besides, and behind which line.
const INSERTED: [(&str, &str, &str); 6] = [
    (
        "Cargo.toml",
        "edition = \"2024\"\n",
        "default-run = \"lamp-shop\"\n",
    ),
    (
        "Cargo.toml",
        "serde = { version = \"1\", features = [\"derive\"] }\n",
        include_str!("../lamp_shop/dependencies.toml"),
    ),
    ("Cargo.toml", "[dev-dependencies]\n", "serde_json = \"1\"\n"),
    (
        "deploy/compose.yaml",
        "  COUNTERSTEP_REDIS: redis://redis:6379\n",
        "  SHOP_DATABASE: postgres://shop:for-trying-out@postgres/lamp-shop\n",
    ),
    (
        "deploy/compose.yaml",
        "      - --file=/run/secrets/lamp-shop/passwords.sql\n",
        "      - --command=CREATE ROLE shop LOGIN PASSWORD 'for-trying-out' IN ROLE counterstep_submitter
      - --command=CREATE TABLE bookings (seat TEXT); CREATE TABLE seats (key TEXT PRIMARY KEY, seat TEXT)
      - --command=GRANT SELECT, INSERT, DELETE ON bookings, seats TO shop\n",
    ),
    (
        "deploy/compose.yaml",
        "\nservices:\n",
        "  # docker compose run --rm book
  book:
    <<: *lamp-shop
    profiles: [book]
    command: [lamp-shop, book, \"17\"]
    environment: *api-settings
    configs: [{source: nats-api, target: /run/secrets/lamp-shop/api/nats}]
    depends_on: *needs\n\n",
    ),
];

fn add_what_the_author_adds(folder: &Path) {
    for (path, text) in ADDED {
        std::fs::write(folder.join(path), text).expect("a file");
    }
    for (path, line, more) in INSERTED {
        let path = folder.join(path);
        let text = std::fs::read_to_string(&path).expect("a file");
        let (before, after) = text
            .split_once(line)
            .unwrap_or_else(|| panic!("{}: no line `{line}`", path.display()));
        std::fs::write(&path, [before, line, more, after].concat()).expect("a file");
    }
}

/// The program that README.md shows, as its reader pastes it: beside the crate's own program, so that its CI builds it without
/// the dependencies of tests, and tests it.
fn add_the_program_of_the_readme(folder: &Path) {
    const FENCE: &str = "```rust,ignore (from crates/counterstep/tests/program/book_seat.rs)\n";
    let readme = std::fs::read_to_string(top().join("README.md")).expect("the page");
    let blocks: Vec<_> = readme
        .split(FENCE)
        .skip(1)
        .map(|rest| rest.split_once("```").expect("the end of the block").0)
        .collect();
    assert_eq!(blocks.len(), 2, "the program and its tests");
    let path = folder.join("src/bin/book-seat.rs");
    std::fs::create_dir(folder.join("src/bin")).expect("a folder");
    std::fs::write(&path, blocks.join("\n")).expect("a file");
    let mut rustfmt = Command::new("rustfmt");
    rustfmt.args(["--edition", "2024"]).arg(&path);
    to_its_end(folder, rustfmt).assert_code(0);
}

/// The task type that AGENTS.md adds, with its sweep, as its reader pastes them. `src/lib.rs` of the author registers it.
fn add_the_type_of_the_page_for_agents(folder: &Path) {
    let page = std::fs::read_to_string(folder.join("AGENTS.md")).expect("the page");
    let blocks = page.split("```rust\n").skip(1);
    let blocks: Vec<_> = blocks
        .map(|rest| rest.split_once("```").expect("the end of the block").0)
        .collect();
    let paths = ["src/ship_order.rs", "tests/ship_order.rs"];
    assert_eq!(blocks.len(), paths.len(), "the type and its sweep");
    for (path, block) in paths.into_iter().zip(blocks) {
        std::fs::write(folder.join(path), block).expect("a file");
    }
}

/// The shop's own tables on a server for the sweep.
fn shop_database(server: &Postgres) -> String {
    let url = server.database();
    let tables = "CREATE TABLE seats (key TEXT PRIMARY KEY, seat TEXT)";
    server.run_sql(&url, tables).expect("a table");
    url
}

/// What its cargo finds beside the crate, which stays as it was written: the profile and the versions of this workspace.
fn settle(place: &Place, folder: &Path) {
    std::fs::create_dir(place.path().join(".cargo")).expect("a folder");
    std::fs::write(place.path().join(".cargo/config.toml"), profile()).expect("a file");
    std::fs::copy(top().join("Cargo.lock"), folder.join("Cargo.lock")).expect("the versions");
}

/// Runs a line of a shell in the crate. Offline, with the target folder of this workspace.
fn shell(folder: &Path, line: &str, shop: &str) {
    let mut shell = without_package(Command::new("bash"));
    shell.args(["-euc", line]).current_dir(folder);
    shell
        .env("CARGO_TARGET_DIR", target_folder())
        .env("CARGO_NET_OFFLINE", "true")
        .env("SHOP_DATABASE", shop);
    let ended = shell.output().expect("a shell");
    let said = [ended.stdout, ended.stderr].concat();
    assert!(
        ended.status.success(),
        "`{line}`: {}\n{}",
        ended.status,
        String::from_utf8_lossy(&said)
    );
}

/// The commands of the crate's CI, run as it does: one shell each.
fn follow_ci(place: &Place, folder: &Path, shop: &str) {
    settle(place, folder);
    let ci =
        std::fs::read_to_string(folder.join(".github/workflows/ci.yml")).expect("a file for CI");
    let ci = documents(&ci).remove(0);
    let steps = ci["jobs"]["test"]["steps"].as_array().expect("steps");
    let lines: Vec<_> = steps
        .iter()
        .filter_map(|step| step["run"].as_str())
        .collect();
    for line in BUILDS {
        assert!(lines.contains(&line), "{line}: {lines:?}");
    }
    for line in lines {
        if line.contains("deploy render --check") {
            render(folder);
        }
        shell(folder, line, shop);
    }
}

/// `deploy render`, by which the author brings the files of `deploy/` up to date. As they were written they lack the queues and
/// the table that the author has added, and nothing else.
fn render(folder: &Path) {
    let deploy = |arguments: &[&str]| {
        let mut command = Command::new(target_folder().join("debug").join(NAME));
        command.args([&["deploy", "render"], arguments].concat());
        to_its_end(folder, command)
    };
    let check = deploy(&["--check"]);
    check.assert_code(1).assert_says("3 files differ");
    let superfluous = check.stdout.lines().find(|line| line.starts_with("- "));
    assert_eq!(superfluous, None);
    let own = [
        "book-seat",
        "print-ticket",
        "mail-ticket",
        "ship-order",
        "('tickets', 'INSERT'),",
    ];
    let of_a_trigger = [
        "type: ",
        "metadata:",
        "natsServer",
        "account: ",
        "stream: ",
        "lagThreshold: ",
    ];
    for line in check.stdout.lines().filter(|line| line.starts_with("+ ")) {
        let known = own.iter().chain(&of_a_trigger);
        assert!(known.into_iter().any(|text| line.contains(text)), "{line}");
    }
    deploy(&[]).assert_code(0);
}

/// `dev` of the new program, and a task of its type.
async fn serve(place: &Place, deployment: &Deployment) {
    let arguments = ["dev", "--listen", "127.0.0.1:0", "--data-dir", "served"];
    let launch = Launch {
        program: deployment.executable.clone(),
        arguments: arguments.map(str::to_owned).to_vec(),
        variables: vec![("PATH".to_owned(), std::env::var("PATH").expect("a path"))],
        user: None,
    };
    let mut dev = Process::launch(place, &launch);
    let address = dev.says("where to submit", |said| {
        let (_, after) = said.split_once("submit to http://")?;
        Some(after.split_once("/api/tasks/")?.0.to_owned())
    });
    deployment.complete_a_task(&Api::at(&address)).await;
    assert!(dev.stop().success());
}

/// `counterstep new`, and what its author adds.
fn made(place: &Place) -> PathBuf {
    let checkout = top();
    let path = checkout.to_str().expect("UTF-8");
    let made = run(place.path(), &["new", NAME, "--path", path]);
    made.assert_code(0);
    assert!(made.stdout.contains("cargo run -- dev"), "{made:?}");
    let again = run(place.path(), &["new", NAME, "--path", path]);
    again
        .assert_code(78)
        .assert_says("not empty; expected the name of a new folder");
    let folder = place.path().join(NAME);
    add_what_the_author_adds(&folder);
    add_the_program_of_the_readme(&folder);
    add_the_type_of_the_page_for_agents(&folder);
    folder
}

/// Most of what its CI builds are the crates of this repository, once more.
#[test]
#[ignore = "part of the build of the tests: `cargo xtask test` runs it before them"]
fn what_its_ci_builds_is_built() {
    let place = Place::new();
    let folder = made(&place);
    settle(&place, &folder);
    let [test, build] = BUILDS;
    shell(&folder, &format!("{test} --no-run && {build}"), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_from_nothing_passes_its_sweep_serves_a_task_and_runs_as_its_files_deploy_it() {
    let place = Place::new();
    // Before the folder is locked by the other build.
    let _ = program();
    let folder = made(&place);
    let server = Postgres::start();
    follow_ci(&place, &folder, &shop_database(&server));
    let deployment = Deployment {
        manifests: Manifests::of(NAME, folder.join("deploy")),
        executable: target_folder().join("debug").join(NAME),
        submission: Submission::Json("checkout", json!({ "item": "lamp", "card": "4711" })),
        own_tables: "CREATE TABLE tickets (number TEXT PRIMARY KEY)",
        own_queues: &["print-ticket", "mail-ticket"],
    };
    serve(&place, &deployment).await;
    run_stack(&deployment).await;
    run_units(&deployment).await;
    run_pods(&deployment).await;
}
