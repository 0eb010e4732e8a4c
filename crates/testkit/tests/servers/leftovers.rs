//! What is left when a test process is killed: nothing.

use counterstep_testkit::servers::{Postgres, Servers};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const ROLE: &str = "COUNTERSTEP_SERVERS_CHILD";

/// Processes that work in a folder or below it.
fn processes_in(folder: &Path) -> Vec<PathBuf> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.map(|entry| entry.path())
        .filter(|of| {
            of.join("cwd")
                .read_link()
                .is_ok_and(|cwd| cwd.starts_with(folder))
        })
        .collect()
}

fn eventually(what: &str, mut look: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !look() {
        assert!(Instant::now() < until, "never came: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_dropped_server_leaves_no_process() {
    let postgres = Postgres::start();
    let folder = Path::new("/proc")
        .join(postgres.pid().unwrap().to_string())
        .join("cwd")
        .read_link()
        .unwrap();
    assert!(!processes_in(&folder).is_empty());
    drop(postgres);
    eventually("the end of its processes", || {
        processes_in(&folder).is_empty()
    });
}

/// No test by itself: what the killed process of the next one does.
#[test]
fn the_process_that_is_killed() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    // From a thread that ends, as a test's does: the servers must not end with it.
    let servers = std::thread::spawn(|| Servers::start(&["files"]))
        .join()
        .unwrap();
    servers
        .postgres
        .run_sql(&servers.postgres.url(), "CREATE TABLE t ()")
        .unwrap();
    println!("postgres={}", servers.postgres.pid().unwrap());
    println!("folder={}", servers.s3.folder().parent().unwrap().display());
    std::thread::sleep(Duration::from_secs(600));
}

#[test]
fn a_killed_test_process_leaves_neither_process_nor_file() {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child
        .args([
            "--exact",
            "leftovers::the_process_that_is_killed",
            "--nocapture",
        ])
        .env(ROLE, "1");
    let mut child = child.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let mut said = |what: &str| {
        lines
            .find_map(|line| Some(line.split_once(what)?.1.to_owned()))
            .unwrap()
    };
    let (postgres, folder) = (said("postgres="), PathBuf::from(said("folder=")));
    // The fifth column is the process that made the segment.
    let has_segment = || {
        let all = std::fs::read_to_string("/proc/sysvipc/shm").unwrap();
        all.lines()
            .any(|line| line.split_whitespace().nth(4) == Some(&postgres))
    };
    let running = processes_in(&folder).len();
    assert!(
        running >= 3 && has_segment(),
        "{running} processes in {}",
        folder.display()
    );
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("the end of its servers", || {
        processes_in(&folder).is_empty()
    });
    eventually("the removal of their files", || !folder.exists());
    eventually("the removal of the shared memory", || !has_segment());
}
