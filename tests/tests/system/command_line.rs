//! Settings that are wrong, each with the exit code and the words that it promises. `2` is the
//! parser's, `78` says that starting again will not help.

use counterstep_tests::command::{Ended, counterstep, run, shell, to_its_end, without_settings};
use counterstep_tests::place::Place;
use counterstep_tests::program::{program, program_called};
use counterstep_tests::rows::make_newer;
use counterstep_tests::services::{self, QUICK};
use counterstep_tests::wait::{SOON, until_now};
use std::ffi::OsStr;
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const SERVICES: [&str; 4] = ["dev", "api", "worker", "reconciler"];

/// With these variables.
fn run_in(place: &Place, variables: &[(&str, &str)], arguments: &[&str]) -> Ended {
    let mut command = counterstep();
    command.args(arguments).envs(variables.iter().copied());
    to_its_end(place.path(), command)
}

/// With this settings file.
fn run_on(place: &Place, settings: &str, arguments: &[&str]) -> Ended {
    let path = place.path().join("settings.toml");
    std::fs::write(&path, settings).expect("a settings file");
    run(
        place.path(),
        &[arguments, &["--config", path.to_str().expect("UTF-8")]].concat(),
    )
}

#[test]
fn an_unknown_flag_is_the_parsers_business() {
    let place = Place::new();
    for command in SERVICES.iter().chain(&["demo", "describe"]) {
        run(place.path(), &[command, "--no-such-flag"])
            .assert_code(2)
            .assert_says("--no-such-flag");
    }
    run(place.path(), &["no-such-command"])
        .assert_code(2)
        .assert_says("no-such-command");
}

/// What `--help` shows but for what a program is called and its version.
fn options(place: &Place, program: &Path, arguments: &[&str]) -> String {
    let mut command = without_settings(program);
    command.args(arguments).arg("--help");
    let help = to_its_end(place.path(), command).stdout;
    let (_, options) = help.split_once("\nOptions:\n").expect("options");
    options.replace("  -V, --version\n          Print version\n\n", "")
}

#[test]
fn a_service_of_its_own_takes_what_its_command_takes() {
    let place = Place::new();
    for service in ["api", "worker", "reconciler"] {
        let own = program_called(&format!("counterstep-{service}"));
        assert_eq!(
            options(&place, own, &[]),
            options(&place, program(), &[service]),
            "{service}"
        );
    }
}

#[test]
fn an_unknown_key_of_the_settings_file_is_named() {
    let place = Place::new();
    for service in SERVICES {
        run_on(&place, "leese = \"3s\"\n", &[service])
            .assert_code(78)
            .assert_says("unknown field `leese`: did you mean `lease`?");
        run_on(&place, "lease = 3\n", &[service])
            .assert_code(78)
            .assert_says("lease");
        run_on(&place, "lease 3s\n", &[service])
            .assert_code(78)
            .assert_says("settings.toml");
    }
    run(place.path(), &["dev", "--config", "missing.toml"])
        .assert_code(78)
        .assert_says("missing.toml");
}

#[test]
fn an_unknown_variable_with_our_prefix_is_named() {
    let place = Place::new();
    for command in [
        &["dev"][..],
        &["api"],
        &["worker"],
        &["reconciler"],
        &["tasks", "list"],
    ] {
        let ended = run_in(&place, &[("COUNTERSTEP_LEESE", "3s")], command);
        ended.assert_code(78).assert_says("COUNTERSTEP_LEESE");
        ended.assert_says("did you mean `COUNTERSTEP_LEASE`?");
    }
}

#[test]
fn settings_of_an_earlier_release_are_refused_and_a_file_of_one_is_taken_once_it_is_upgraded() {
    let place = Place::new();
    let settings = "# Ours.\ndata_dir = \"data\"\ncancel_grace = \"2s\" # short\nredis_ca_file = \"ca.pem\"\n\
                    webhook_secret_file = \"webhooks\"\n";
    run_on(&place, settings, &["reconciler", "--once"])
        .assert_code(78)
        .assert_says("`cancel_grace`: the value is fixed: 5s; `counterstep settings upgrade FILE`");
    let upgrade = ["settings", "upgrade", "settings.toml"];
    let upgraded = run(place.path(), &upgrade);
    upgraded.assert_code(0);
    assert_eq!(upgraded.stdout.lines().count(), 3, "{upgraded:#?}");
    let path = place.path().join("settings.toml");
    let text = std::fs::read_to_string(&path).expect("the settings");
    assert_eq!(
        text,
        "# Ours.\ndata_dir = \"data\"\n# short\ntls.redis.ca_file = \"ca.pem\"\nsecret_files.webhooks = \"webhooks\"\n"
    );
    run_on(&place, &text, &["reconciler", "--once"]).assert_code(0);
    let again = run(place.path(), &upgrade);
    again.assert_code(0);
    assert!(again.stdout.contains("nothing was changed"), "{again:#?}");

    let ended = run(place.path(), &["worker", "--redis-ca-file", "ca.pem"]);
    ended
        .assert_code(2)
        .assert_says("use `ca_file` of all servers, or `tls.redis.ca_file`");
    for command in [&["worker"][..], &["migrate"], &["tasks", "list"]] {
        run_in(&place, &[("COUNTERSTEP_NATS_TOKEN_FILE", "t")], command)
            .assert_code(78)
            .assert_says("use the file `nats` in the folder `secrets_dir`");
    }
}

/// What opens the database or describes task types, beside the services.
const OTHERS: [&[&str]; 6] = [
    &["migrate"],
    &["doctor"],
    &["check-deploy"],
    &["audit", "verify"],
    &["fsck"],
    &["describe"],
];

#[test]
fn all_commands_share_a_file_and_take_from_it_what_is_theirs() {
    let place = Place::new();
    // Values of other commands are not looked at: `every` is none of a worker's settings.
    let settings = "data_dir = \"data\"\nlisten = \"127.0.0.1:0\"\nallowed_hosts = [\"x\"]\nconcurrency = 3\n\
                    heavy = 1\nlease = \"9s\"\nnats_prefix = \"x\"\nnats_replicas = 3\nevery = \"7s\"\n\
                    [retention.\"*\"]\ncompleted = \"keep\"\n";
    run_on(&place, settings, &["reconciler", "--once"]).assert_code(0);
    for command in OTHERS {
        run_on(&place, settings, command).assert_code(0);
        run_on(&place, "leese = \"3s\"\n", command)
            .assert_code(78)
            .assert_says("unknown field `leese`");
    }
    run_on(&place, "nats = \"no-url\"\n", &["migrate"]).assert_code(0);
}

#[test]
fn all_commands_share_variables_and_take_from_them_what_is_theirs() {
    let place = Place::new();
    let variables = [
        ("COUNTERSTEP_DATA_DIR", "data"),
        ("COUNTERSTEP_LISTEN", "127.0.0.1:0"),
        ("COUNTERSTEP_QUEUES", "file-processing"),
        ("COUNTERSTEP_EVERY", "7s"),
        ("COUNTERSTEP_HEAVY", "1"),
        ("COUNTERSTEP_LEASE", "9s"),
        ("COUNTERSTEP_NATS_PREFIX", "x"),
        ("COUNTERSTEP_URL", "http://127.0.0.1:9"),
    ];
    run_in(&place, &variables, &["reconciler", "--once"]).assert_code(0);
    for command in OTHERS {
        run_in(&place, &variables, command).assert_code(0);
    }
    // The file of the services need not be there for those who call the API.
    let with_file = [&variables[..], &[("COUNTERSTEP_CONFIG", "missing.toml")]].concat();
    for command in ["tasks", "types", "queues", "limits", "schedules"] {
        run_in(&place, &with_file, &[command, "list"])
            .assert_code(69)
            .assert_says("http://127.0.0.1:9");
    }
}

#[test]
fn a_flag_of_another_command_is_the_parsers_business() {
    let place = Place::new();
    for arguments in [
        &["tasks", "list", "--database", "sqlite://x"][..],
        &["describe", "--lease", "3s"],
        &["demo", "--data-dir", "x"],
    ] {
        run(place.path(), arguments)
            .assert_code(2)
            .assert_says("unexpected argument");
    }
}

#[test]
fn a_secret_among_the_arguments_is_refused_and_not_repeated() {
    let place = Place::new();
    let url = "postgres://me:open-sesame@db.example/x";
    let equals = format!("--database={url}");
    for arguments in [
        &["dev", "--database", url][..],
        &["worker", &equals],
        &["reconciler", "--once", "--objects", url],
        &["api", url],
        &[
            "tasks",
            "--url",
            "http://me:open-sesame@127.0.0.1:9",
            "list",
        ],
        &["demo", url],
    ] {
        let ended = run(place.path(), arguments);
        ended.assert_code(78);
        assert!(
            !format!("{}{}", ended.stdout, ended.stderr).contains("open-sesame"),
            "{ended:#?}"
        );
    }
    // In a variable it may stand, and is not repeated either.
    let ended = run_in(&place, &[("COUNTERSTEP_DATABASE", url)], &["dev"]);
    ended.assert_code(78).assert_says("database");
    assert!(!ended.stderr.contains("open-sesame"), "{ended:#?}");
    let ended = run_in(
        &place,
        &[("COUNTERSTEP_URL", "http://me:open-sesame@127.0.0.1:9")],
        &["tasks", "list"],
    );
    ended.assert_code(69).assert_says("http://127.0.0.1:9");
    assert!(!ended.stderr.contains("open-sesame"), "{ended:#?}");
}

#[test]
fn a_database_that_a_newer_program_has_changed_is_refused_and_stays_as_it_is() {
    let place = Place::new();
    let data = place.data();
    let data = data.to_str().expect("UTF-8");
    run(place.path(), &["reconciler", "--once", "--data-dir", data]).assert_code(0);
    make_newer(&place);
    let before = std::fs::read(place.database()).expect("the database");
    for command in [
        &["dev", "--listen", "127.0.0.1:0"][..],
        &["api", "--listen", "127.0.0.1:0"],
        &["worker"],
        &["reconciler"],
        &["reconciler", "--once"],
        &["reconciler", "--dry-run"],
    ] {
        let ended = run(place.path(), &[command, &["--data-dir", data]].concat());
        ended
            .assert_code(78)
            .assert_says("29990101000000")
            .assert_says("newer program");
        let after = std::fs::read(place.database()).expect("the database");
        assert!(after == before, "{command:?} wrote to the database");
    }
}

#[test]
fn an_address_that_others_can_reach_has_to_be_meant() {
    let place = Place::new();
    for command in ["dev", "api"] {
        for address in ["0.0.0.0:0", "[::]:0"] {
            let ended = run(place.path(), &[command, "--listen", address]);
            ended.assert_code(78).assert_says("--auth keys");
            let ended = run_in(&place, &[("COUNTERSTEP_LISTEN", address)], &[command]);
            ended.assert_code(78).assert_says("--auth keys");
            let settings = format!("listen = \"{address}\"\n");
            std::fs::write(place.path().join("settings.toml"), settings).expect("a settings file");
            let mut from_file = counterstep();
            from_file.args([command, "--config", "settings.toml"]);
            from_file.env_remove("COUNTERSTEP_LISTEN");
            let ended = to_its_end(place.path(), from_file);
            ended.assert_code(78).assert_says("--auth keys");
        }
    }
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("its address").to_string();
    run(place.path(), &["dev", "--listen", &address])
        .assert_code(78)
        .assert_says(&address);
}

#[test]
fn an_address_that_is_none_says_what_is_expected() {
    let place = Place::new();
    let expected = "expected ADDRESS:PORT, as 127.0.0.1:8080";
    for address in ["9000", "127.0.0.1:99999", "localhost:9003"] {
        run(place.path(), &["dev", "--listen", address])
            .assert_code(2)
            .assert_says(expected);
        run_on(&place, &format!("listen = \"{address}\"\n"), &["api"])
            .assert_code(78)
            .assert_says(expected);
    }
}

#[test]
fn a_database_that_a_single_pass_makes_is_warned_of_and_missing_keys_are_told_how_to_make() {
    let place = Place::new();
    for (arguments, warns) in [
        (&["reconciler", "--once"][..], true),
        (&["reconciler", "--once"], false),
    ] {
        let ended = run(place.path(), arguments);
        let said = ended
            .assert_code(0)
            .stderr
            .contains("are --data-dir and --database right?");
        assert_eq!(said, warns, "{ended:#?}");
    }
    let changes = run(place.path(), &["audit", "changes"]);
    assert_eq!(changes.assert_code(0).stdout, "No changes\n");
    let changes = run(place.path(), &["audit", "changes", "--json"]);
    assert_eq!(changes.assert_code(0).stdout, "");
    run(
        place.path(),
        &["payload-keys", "add", "acme", "--payload-keys", "keys"],
    )
    .assert_code(78)
    .assert_says("`mkdir -m 700 keys`");
}

#[test]
fn a_duration_that_is_none_is_named_with_its_setting() {
    let place = Place::new();
    let settings = ["lease", "step_timeout", "upload_timeout", "drain", "every"];
    for setting in settings {
        for bad in ["3", "0s", "-1s", "soon", "1.5s", ""] {
            let (flag, variable) = (
                format!("--{}={bad}", setting.replace('_', "-")),
                setting.to_uppercase(),
            );
            run(place.path(), &["dev", &flag])
                .assert_code(78)
                .assert_says(&format!("`{setting}`"));
            let ended = run_in(
                &place,
                &[(&format!("COUNTERSTEP_{variable}"), bad)],
                &["reconciler"],
            );
            ended.assert_code(78).assert_says(&format!("`{setting}`"));
            let ended = run_on(&place, &format!("{setting} = \"{bad}\"\n"), &["reconciler"]);
            ended.assert_code(78).assert_says(&format!("`{setting}`"));
        }
    }
}

#[test]
fn a_queue_that_no_task_type_has_is_refused_with_the_known_ones() {
    let place = Place::new();
    for command in ["worker", "dev"] {
        let ended = run(
            place.path(),
            &[command, "--queues", "file-processing,lost-and-found"],
        );
        ended
            .assert_code(78)
            .assert_says("`lost-and-found`")
            .assert_says("known are file-processing");
    }
    run_on(&place, "queues = [\"lost-and-found\"]\n", &["worker"])
        .assert_code(78)
        .assert_says("`lost-and-found`");
}

#[test]
fn a_flag_beats_a_variable_and_a_variable_beats_the_file() {
    let place = Place::new();
    let path = place.path().join("settings.toml");
    std::fs::write(&path, "data_dir = \"of-the-file\"\n").expect("a settings file");
    let file = ("COUNTERSTEP_CONFIG", path.to_str().expect("UTF-8"));
    let variable = ("COUNTERSTEP_DATA_DIR", "of-the-variable");
    for (variables, flags, expected) in [
        (&[file][..], &[][..], "of-the-file"),
        (&[file, variable], &[], "of-the-variable"),
        (
            &[file, variable],
            &["--data-dir", "of-the-flag"],
            "of-the-flag",
        ),
        (&[], &[], "counterstep-data"),
    ] {
        assert!(!place.path().join(expected).exists());
        run_in(
            &place,
            variables,
            &[&["reconciler", "--once"], flags].concat(),
        )
        .assert_code(0);
        assert!(
            place.path().join(expected).join("counterstep.db").is_file(),
            "{expected}"
        );
    }
}

#[test]
fn one_pass_is_possible_where_a_variable_says_how_often_the_service_passes() {
    let place = Place::new();
    run_in(
        &place,
        &[("COUNTERSTEP_EVERY", "1m")],
        &["reconciler", "--once"],
    )
    .assert_code(0);
}

#[test]
fn dev_passes_as_often_as_the_file_says() {
    let place = Place::new();
    let path = place.path().join("settings.toml");
    std::fs::write(&path, "every = \"7s\"\n").expect("a settings file");
    let flags = ["--config", path.to_str().expect("UTF-8")];
    let mut dev = services::dev(&place, &[QUICK, &flags].concat());
    let every = dev.process.says("how often it passes", |said| {
        let line = said
            .lines()
            .find(|line| line.contains("reconciler started"))?;
        line.split_once("every=")
            .map(|(_, every)| every.trim().to_owned())
    });
    assert_eq!(every, "7s");
}

#[test]
fn data_that_is_something_else_is_refused() {
    let place = Place::new();
    std::fs::write(
        place.path().join("file"),
        "no folder, and no database either".repeat(50),
    )
    .expect("a file");
    run(place.path(), &["worker", "--data-dir", "file"])
        .assert_code(78)
        .assert_says("`file");
    run(place.path(), &["worker", "--database", "sqlite://file"])
        .assert_code(78)
        .assert_says("database");
    for url in ["sqlite://", "file", "mysql://db/x", "sqlite:file"] {
        run(place.path(), &["worker", "--database", url])
            .assert_code(78)
            .assert_says("`database`");
    }
}

#[test]
fn an_argument_that_is_no_text_is_refused_and_nothing_panics() {
    let place = Place::new();
    let mut command = counterstep();
    command
        .args(["reconciler", "--once", "--data-dir"])
        .arg(OsStr::from_bytes(b"not-\xff-text"));
    let ended = to_its_end(place.path(), command);
    ended.assert_code(78);
    assert!(!ended.stderr.contains("panicked"), "{ended:#?}");
}

#[test]
fn events_are_switched_on_with_and_without_a_value() {
    let place = Place::new();
    for (flag, code) in [
        (&["--events"][..], 78),
        (&["--events", "true"], 78),
        (&["--events", "false"], 0),
    ] {
        let arguments = [&["reconciler", "--once"][..], flag].concat();
        let ended = run(place.path(), &arguments);
        ended.assert_code(code);
        if code == 78 {
            ended.assert_says("setting `events`");
        }
    }
}

#[test]
fn a_version_names_the_commit_and_completions_name_the_commands() {
    let place = Place::new();
    let version = run(place.path(), &["--version"]);
    let shown = version.assert_code(0).stdout.trim_end();
    let commit = shown
        .strip_prefix(concat!("counterstep ", env!("CARGO_PKG_VERSION"), " ("))
        .expect("the version");
    assert!(commit.ends_with(')') && commit.len() > 2, "{version:#?}");
    for shell in ["bash", "zsh", "fish"] {
        let script = run(place.path(), &["completions", shell]);
        assert!(
            script.assert_code(0).stdout.contains("complete"),
            "{script:#?}"
        );
        let answer = run(place.path(), &["complete", shell, "--", "dead"]);
        assert!(
            answer.assert_code(0).stdout.starts_with("dead-letters"),
            "{answer:#?}"
        );
    }
    run(place.path(), &["completions", "no-such-shell"]).assert_code(2);
}

#[test]
fn a_profile_names_a_server_and_a_flag_comes_before_it() {
    let place = Place::new();
    let served = services::dev(&place, &[]);
    let home = place.path().to_str().expect("UTF-8").to_owned();
    let here = |arguments: &[&str]| run_in(&place, &[("XDG_CONFIG_HOME", &home)], arguments);
    here(&["profile", "add", "here", "--url", served.api.url()]).assert_code(0);
    let listed = here(&["queues", "list", "--profile", "here"]);
    listed.assert_code(0);
    assert!(listed.stdout.contains("orders"), "{listed:#?}");
    let listed = here(&["profile", "list"]);
    listed.assert_code(0);
    assert!(listed.stdout.contains(served.api.url()), "{listed:#?}");
    let completed = here(&["complete", "bash", "--", "queues", "list", "--profile", "h"]);
    assert_eq!(completed.assert_code(0).stdout, "here\n");
    here(&["queues", "list", "--profile", "away"])
        .assert_code(78)
        .assert_says("it has here");
    let away = ["queues", "list", "--profile", "here"];
    // Neither the address nor the key of one server goes with those of another one.
    here(&[&away[..], &["--url", "http://127.0.0.1:9"]].concat())
        .assert_code(78)
        .assert_says("--url");
    let key = [("XDG_CONFIG_HOME", &*home), ("COUNTERSTEP_TOKEN_FILE", "k")];
    run_in(&place, &key, &away).assert_code(78);
    let login = "https://kim:hunter2@127.0.0.1";
    here(&["profile", "add", "b", "--url", login]).assert_code(78);
    here(&["profile", "add", "b", "--url", "127.0.0.1"]).assert_code(2);
    here(&["profile", "remove", "here"]).assert_code(0);
    here(&["profile", "remove", "here"]).assert_code(1);
    assert!(served.process.stop().success());
}

#[test]
fn a_service_of_unknown_task_types_does_not_start() {
    let place = Place::new();
    for service in ["dev", "worker"] {
        run(place.path(), &[service, "--task-types", "nope"])
            .assert_code(78)
            .assert_says("no task type is called `nope`: known are CreateZipFromFiles@1");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_on_a_server_that_a_profile_names_is_made_when_the_person_agrees() {
    let place = Place::new();
    let served = services::dev(&place, &[]);
    let here = |text: &str| {
        let mut command = shell(text);
        command.env("XDG_CONFIG_HOME", place.path().join("config"));
        to_its_end(place.path(), command)
    };
    let url = served.api.url();
    here(&format!("counterstep profile add prod --url {url}")).assert_code(0);
    let pause = "counterstep queues pause orders --note a-test --profile prod";
    // A terminal, to which the answer is typed.
    let typed = |answer: &str, more: &str| {
        here(&format!(
            "echo {answer} | script --quiet --return --command '{pause}{more}' /dev/null"
        ))
    };
    let asked = format!("On prod ({url}): ");
    let refused = typed("n", "");
    refused.assert_code(1);
    for part in [&asked, "(orders)", "Continue? [y/N]", "nothing was changed"] {
        assert!(refused.stdout.contains(part), "{part}: {refused:#?}");
    }
    let paused = || {
        here("counterstep gates list --profile prod")
            .stdout
            .contains("orders")
    };
    assert!(!paused());
    let agreed = typed("y", "");
    assert!(agreed.assert_code(0).stdout.contains(&asked), "{agreed:#?}");
    assert!(paused());
    // Without a question: where it is said so, and where no person could answer.
    let resume = pause.replace("pause", "resume");
    for command in [
        format!("script --quiet --return --command '{pause} --yes' /dev/null"),
        resume,
    ] {
        let done = here(&command);
        done.assert_code(0);
        assert!(
            !(done.stdout.clone() + &done.stderr).contains("Continue?"),
            "{done:#?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_what_is_shown_is_opened_or_its_address_printed() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let served = services::dev(&place, &[]);
    let url = served.api.url();
    let opened = place.path().join("opened");
    let browser = place.path().join("browser");
    let script = format!("#!/bin/sh\necho \"$1\" >> {}\n", opened.display());
    std::fs::write(&browser, script).expect("a program");
    let all = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&browser, all).expect("its mode");
    let web = |browser: &str, arguments: &[&str]| {
        let mut command = counterstep();
        command.args(arguments).args(["--url", url, "--web"]);
        for screen in ["DISPLAY", "WAYLAND_DISPLAY"] {
            command.env_remove(screen);
        }
        command.env("BROWSER", browser);
        let ended = to_its_end(place.path(), command);
        ended.assert_code(0);
        ended
    };
    let task = web("", &["tasks", "submit", "place-order", "--request", ORDER]);
    let id = task.stdout.split(' ').next().expect("an id").to_owned();
    task.assert_says(&format!("the page is at {url}/ui/tasks/{id}\n"));
    web("", &["queues", "list"]).assert_says(&format!("the page is at {url}/ui/queues\n"));

    let browser = browser.to_str().expect("UTF-8");
    let shown = web(browser, &["tasks", "show", &id]);
    assert!(
        shown.stderr.is_empty() && shown.stdout.contains(&id),
        "{shown:#?}"
    );
    let page = format!("{url}/ui/tasks/{id}\n");
    let is_open = || std::fs::read_to_string(&opened).is_ok_and(|text| text == page);
    until_now("the browser has the page", SOON, || is_open().then_some(()));
}

const ORDER: &str =
    r#"{"item":"lamp","quantity":1,"amount_cents":100,"account":"kim","hold_seconds":1}"#;
