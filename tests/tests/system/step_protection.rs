//! A step in a process of its own as the user of its host: what it reads of that, what it leaves, and what the host logs
//! where a protection is missing. As on a real machine, that user is not root.

use counterstep_contracts::{TaskId, TaskStatus};
use counterstep_tests::api::Api;
use counterstep_tests::effects::{logged, runs, submit, until_gone};
use counterstep_tests::place::Place;
use counterstep_tests::process::{Launch, Process, is_root};
use counterstep_tests::services::after;
use counterstep_tests::wait::{SOON, until};
use serde_json::json;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::PathBuf;

/// As services have it that own nothing.
const USER: u32 = 65_534;

/// A machine on which all is this user's.
struct Ground {
    place: Place,
    program: PathBuf,
}

impl Ground {
    fn new() -> Self {
        let place = Place::new();
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(place.path(), open).expect("rights");
        let program = place.path().join("effects-program");
        // By a process of its own: what a test beside this one starts would inherit the open file, and it could not be executed.
        let mut copy = std::process::Command::new("cp");
        let copied = copy
            .arg(env!("CARGO_BIN_EXE_effects"))
            .arg(&program)
            .status();
        assert!(copied.expect("the program is copied").success());
        let ground = Self { place, program };
        std::fs::create_dir(ground.path("state")).expect("a folder");
        std::fs::write(ground.path("state/secret"), "a secret").expect("a file");
        for own in ["state", "state/secret"] {
            if is_root() {
                chown(ground.path(own), Some(USER), Some(USER)).expect("an owner");
            }
        }
        ground
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("UTF-8").to_owned()
    }

    fn start(&self, arguments: &[&str]) -> Process {
        let data = ["--data-dir".to_owned(), self.text("state/data")];
        let arguments = arguments.iter().map(|&it| it.to_owned());
        let launch = Launch {
            program: self.program.clone(),
            arguments: arguments.chain(data).collect(),
            variables: vec![
                ("PATH".to_owned(), std::env::var("PATH").expect("a path")),
                ("EFFECTS".to_owned(), self.text("state/effects")),
            ],
            user: Some(USER),
        };
        Process::launch(&self.place, &launch)
    }

    fn dev(&self, settings: &[&str]) -> (Process, Api) {
        let always = ["dev", "--listen", "127.0.0.1:0", "--step-env", "EFFECTS"];
        let mut dev = self.start(&[&always[..], settings].concat());
        let address = dev.says("where to submit", |said| {
            after(said, "submit to http://", '/')
        });
        (dev, Api::at(&address))
    }

    async fn fly(&self, (host, api): (&Process, &Api), how: &str) -> TaskId {
        let request = json!({
            "how": how,
            "leaves": true,
            "read": [format!("/proc/{}/environ", host.id()), self.path("state/secret"), "/etc/passwd"],
            "write": [self.path("state/written")],
            "signal": host.id(),
        });
        submit(api, "fly", &request).await
    }
}

/// What a step could do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Could {
    /// Read the environment of its host.
    environ: bool,
    /// Read a file of its user, and write one.
    files: bool,
    signal: bool,
    /// Set the priority of its host.
    order: bool,
    gain_rights: bool,
    /// Leave a program running.
    stay: bool,
}

/// Nothing of it, with all protections.
const NOTHING: Could = Could {
    environ: false,
    files: false,
    signal: false,
    order: false,
    gain_rights: false,
    stay: false,
};

/// What a step can do without one that the system does not have, as the host has logged.
fn without(log: &str, mut could: Could) -> Could {
    let lacks = |protection: &str| log.contains(&format!("protection=\"{protection}\""));
    if lacks("landlock") {
        could.signal = true;
        could.files |= log.contains("read and write every file");
    }
    could.order |= lacks("seccomp");
    could.gain_rights |= lacks("no_new_privs");
    could.stay |= lacks("subreaper");
    could
}

async fn what_a_step_can_do(ground: &Ground, settings: &[&str]) -> (Could, String) {
    let (host, api) = ground.dev(settings);
    let log = host.log();
    let task = ground.fly((&host, &api), "none").await;
    let view = api.at_rest(task).await;
    assert_eq!(view.status, TaskStatus::Completed, "{:?}", view.failure);
    let said = api.log(task).await;
    let could = |what: &str| {
        let answers = said.iter().filter_map(|line| line.strip_prefix(what));
        let answers: Vec<_> = answers.map(|answer| answer.ends_with(" true")).collect();
        assert_eq!(answers.len(), 1, "{what}: {said:?}");
        answers[0]
    };
    assert!(
        could("reads /etc/passwd") && could("starts programs"),
        "{said:?}"
    );
    let files = could(&format!("reads {}", ground.text("state/secret")));
    assert_eq!(
        could(&format!("writes {}", ground.text("state/written"))),
        files
    );
    // Not before the process of the step is gone, with its supervisor.
    until_gone(&logged(&said, "pid")).await;
    let left = logged(&said, "left").concat();
    let stay = if log.contains("protection=\"subreaper\"") {
        runs(&left)
    } else {
        until_gone(std::slice::from_ref(&left)).await;
        false
    };
    if stay {
        let ended = std::process::Command::new("kill").arg(&left).status();
        assert!(ended.expect("kill").success());
    }
    let seen = Could {
        environ: could(&format!("reads /proc/{}/environ", host.id())),
        files,
        signal: could("signals its host"),
        order: could("orders its host"),
        gain_rights: could("gains rights"),
        stay,
    };
    assert!(host.stop().success());
    (seen, log)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_reads_nothing_of_its_host_and_leaves_nothing_unless_a_protection_is_missing() {
    let ground = Ground::new();
    let (seen, log) = what_a_step_can_do(&ground, &[]).await;
    // Where the system lacks one, the start has named it, with what a step can do.
    let expected = without(&log, NOTHING);
    assert_eq!(seen, expected, "{log}");
    for (off, could) in [
        (
            "landlock",
            Could {
                files: true,
                signal: true,
                ..expected
            },
        ),
        (
            "landlock,dumpable",
            Could {
                environ: true,
                files: true,
                signal: true,
                ..expected
            },
        ),
        (
            "no_new_privs",
            Could {
                files: true,
                signal: true,
                order: true,
                // Where this test has it itself, all that it starts has.
                gain_rights: field("/proc/self", "NoNewPrivs:").as_deref() == Some("0"),
                ..expected
            },
        ),
        (
            "seccomp",
            Could {
                order: true,
                ..expected
            },
        ),
        (
            "subreaper",
            Could {
                stay: true,
                ..expected
            },
        ),
        ("dumpable", expected),
    ] {
        let (seen, log) = what_a_step_can_do(&ground, &["--without-protection", off]).await;
        assert_eq!(seen, could, "{off}: {log}");
        for name in off.split(',') {
            let named =
                format!("protection=\"{name}\" reason=\"switched off by `without_protection`\"");
            assert_eq!(log.matches(&named).count(), 1, "{off}: {log}");
        }
    }
    // A path that steps may read.
    let more = ground.text("state/secret");
    let (host, api) = ground.dev(&["--step-paths", &more]);
    let task = ground.fly((&host, &api), "none").await;
    api.at_rest(task).await;
    let said = api.log(task).await;
    assert!(said.contains(&format!("reads {more} true")), "{said:?}");
    assert!(host.stop().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ends_of_host_and_supervisor_end_a_step_and_its_memory_is_bounded_still() {
    let ground = Ground::new();
    let (host, api) = ground.dev(&[]);
    let leak = ground.fly((&host, &api), "leak").await;
    let view = api.at_rest(leak).await;
    let failure = format!("{:?}", view.failure);
    assert!(
        failure.contains("more than its bound of 192MiB"),
        "{failure}"
    );

    let started = |task: TaskId| {
        let api = &api;
        until("the process of a step", SOON, move || async move {
            let log = api.log(task).await;
            let (own, left) = (logged(&log, "pid"), logged(&log, "left"));
            (!left.is_empty()).then(|| (own.concat(), left.concat()))
        })
    };
    let (own, left, supervisor) = loop {
        let (own, left) = started(ground.fly((&host, &api), "spin").await).await;
        // It has a time limit.
        if let Some(supervisor) = field(&format!("/proc/{own}"), "PPid:") {
            break (own, left, supervisor);
        }
    };
    assert_ne!(supervisor, host.id().to_string());
    let killed = std::process::Command::new("kill")
        .args(["-s", "KILL", &supervisor])
        .status();
    assert!(killed.expect("kill").success());
    until_gone(&[own]).await;
    // It was the supervisor's to end.
    let _ = std::process::Command::new("kill").arg(&left).status();

    let (own, left) = started(ground.fly((&host, &api), "spin").await).await;
    host.kill();
    until_gone(&[own, left]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_role_hides_its_memory_from_processes_of_its_user() {
    let ground = Ground::new();
    let roles: [(&[&str], &str); 4] = [
        (&["api", "--listen", "127.0.0.1:0"], "address="),
        (&["worker"], "worker started"),
        (&["reconciler"], "reconciler started"),
        (
            &["reconciler", "--without-protection", "dumpable"],
            "reconciler started",
        ),
    ];
    for (arguments, says) in roles {
        let mut process = ground.start(arguments);
        process.says("that it has started", |said| {
            said.contains(says).then_some(())
        });
        let folder = format!("/proc/{}", process.id());
        let environ = std::fs::metadata(format!("{folder}/environ"));
        let owner = environ.expect("the process").uid();
        let user: u32 = field(&folder, "Uid:")
            .expect("it")
            .parse()
            .expect("a number");
        assert_eq!(
            owner == user,
            arguments.contains(&"dumpable") || user == 0,
            "{arguments:?}"
        );
        assert!(process.stop().success(), "{arguments:?}");
    }
}

/// The first word of a field that the system has of a process.
fn field(process: &str, name: &str) -> Option<String> {
    let status = std::fs::read_to_string(format!("{process}/status")).ok()?;
    let words = status.lines().find_map(|line| line.strip_prefix(name))?;
    words.split_whitespace().next().map(str::to_owned)
}
