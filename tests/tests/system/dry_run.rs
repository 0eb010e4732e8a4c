//! `counterstep reconciler --dry-run` and `--once` on what a killed process has left: a lost task
//! and real orphans.

use counterstep_contracts::{StepStatus, TaskId, TaskStatus};
use counterstep_tests::api::{Api, ROUTE};
use counterstep_tests::command::{Ended, run};
use counterstep_tests::place::Place;
use counterstep_tests::rows::Rows;
use counterstep_tests::sample::Sample;
use counterstep_tests::services::{self, QUICK};
use counterstep_tests::wait::{LATER, SOON, until};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};

fn reconciler(place: &Place, flag: &str) -> Ended {
    let data = place.data();
    run(
        place.path(),
        &[
            "reconciler",
            flag,
            "--data-dir",
            data.to_str().expect("UTF-8"),
            "--log",
            "warn",
        ],
    )
}

/// Sends a form whose first file is whole and whose second one never ends. The connection stays
/// open.
fn begin_a_request(api: &Api) -> TcpStream {
    let address = api.url().trim_start_matches("http://");
    let part = "--x\r\ncontent-disposition: form-data; name=\"files\"; filename=\"a.txt\"\r\n\r\n";
    let mut connection = TcpStream::connect(address).expect("the API listens");
    write!(
        connection,
        "POST {ROUTE} HTTP/1.1\r\nhost: {address}\r\ncontent-type: multipart/form-data; boundary=x\r\n\
         content-length: 1000000\r\n\r\n{part}whole\r\n{part}half"
    )
    .expect("the request is sent");
    connection
}

/// A task whose last step has stored its object and not committed it, and a request that has stored
/// one of its two files; then no process runs any more.
async fn leave_a_mess(place: &Place, samples: &[Sample]) -> TaskId {
    let never = ["--every", "1h", "--plant-fault", "upload_zip=hang@1"];
    // Limits long enough that neither the step that hangs nor the request that never ends is given
    // up before both stand as they should, on a machine that has other things to do; and short
    // enough to wait for their sweep.
    let limits = [
        "--lease",
        "2s",
        "--step-timeout",
        "20s",
        "--test-time",
        "cancel_grace=500ms",
        "--upload-timeout",
        "15s",
    ];
    let dev = services::dev(place, &[&limits[..], &never].concat());
    let rows = Rows::of(place).await;
    let task = dev.api.submit(samples).await;
    let whole = || async {
        rows.objects()
            .await
            .into_iter()
            .filter(|object| !object.key.contains('#'))
            .count()
    };
    until(
        "the step that hangs, with its object stored",
        SOON,
        || async {
            let running = rows.task(task).await.record.steps[2].status == StepStatus::Running;
            (running && whole().await == samples.len() + 1).then_some(())
        },
    )
    .await;
    let _connection = begin_a_request(&dev.api);
    until("the first file of the request", SOON, || async {
        (whole().await == samples.len() + 2).then_some(())
    })
    .await;
    dev.process.kill();
    task
}

/// Every file of the data, by its digest. The shared memory of SQLite holds locks and no data.
fn digests(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(digests(&path));
        } else if path
            .extension()
            .is_none_or(|extension| extension != "db-shm")
        {
            match std::fs::read(&path) {
                Ok(bytes) => drop(found.insert(path, Sha256::digest(bytes).to_vec())),
                // SQLite removes its log with its last connection, which may be closing at this
                // moment.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => panic!("{} cannot be read: {error}", path.display()),
            }
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_changes_nothing_and_a_pass_then_does_what_it_said() {
    let place = Place::new();
    let samples = Sample::pair(7, 50_000);
    let task = leave_a_mess(&place, &samples).await;
    let rows = Rows::of(&place).await;
    let (before, objects) = (rows.task(task).await, rows.objects().await);

    // What the lost attempt has stored is a sweep's once its task is taken back. Its time is over
    // by then: the request began later, and may take longer.
    let plan = until(
        "a plan to take back the task and to sweep the request's files",
        LATER,
        || async {
            let plan = reconciler(&place, "--dry-run")
                .assert_code(0)
                .stdout
                .clone();
            let sweeps = plan
                .lines()
                .filter(|line| line.starts_with("sweep t/"))
                .count();
            (plan.contains(&format!("take back task {task}")) && sweeps == 1).then_some(plan)
        },
    )
    .await;
    let mut after = rows.task(task).await;
    // The one column that is no column.
    after.record.now = before.record.now;
    assert_eq!(after, before, "rows changed under a dry run");
    assert_eq!(
        rows.objects().await,
        objects,
        "objects changed under a dry run"
    );
    drop(rows);

    // The first process on a file after a crash may move rows from the log to their place, and so
    // may a connection of this test that is still being closed. A dry run that changed something
    // itself would do so each time.
    let mut changed = BTreeSet::new();
    until("a dry run that leaves every file as it was", LATER, || {
        let before = digests(&place.data());
        let again = reconciler(&place, "--dry-run");
        assert_eq!(
            again.assert_code(0).stdout.lines().count(),
            plan.lines().count(),
            "{again:#?}\n{plan}"
        );
        let after = digests(&place.data());
        let differ = |path: &&PathBuf| before.get(*path) != after.get(*path);
        let differing: BTreeSet<_> = before
            .keys()
            .chain(after.keys())
            .filter(differ)
            .cloned()
            .collect();
        let same = differing.is_empty().then_some(());
        changed.extend(differing);
        async move { same }
    })
    .await;
    println!("changed by connections that were being closed: {changed:?}");

    let once = reconciler(&place, "--once");
    assert!(
        once.assert_code(0)
            .stdout
            .starts_with("1 tasks taken back, "),
        "{once:#?}"
    );
    assert!(
        once.stdout.contains(" under 2 prefixes, 0 failures"),
        "{once:#?}"
    );
    let rows = Rows::of(&place).await;
    let taken = rows.task(task).await;
    assert_eq!(
        taken.record.task.status,
        TaskStatus::Dispatched,
        "{}",
        taken.trail()
    );
    assert_eq!(taken.record.task.recovery_attempts, 1);
    taken.assert_sound();
    let left: Vec<_> = rows
        .objects()
        .await
        .into_iter()
        .filter(|object| object.bucket != "incoming-files")
        .collect();
    assert_eq!(left, [], "the object of the lost attempt");
    rows.assert_no_orphans().await;
    let nothing = reconciler(&place, "--once");
    assert!(
        nothing
            .assert_code(0)
            .stdout
            .starts_with("0 tasks taken back, "),
        "{nothing:#?}"
    );
    assert_eq!(
        reconciler(&place, "--dry-run").assert_code(0).stdout,
        "nothing to do\n"
    );

    let dev = services::dev(&place, QUICK);
    assert_eq!(dev.api.at_rest(task).await.status, TaskStatus::Completed);
    dev.api.assert_archive(task, &samples).await;
    assert!(dev.process.stop().success());
    let known = rows.task(task).await;
    known.assert_completed_once();
    known.assert_sound();
}
