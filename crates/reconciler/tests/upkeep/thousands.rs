//! A hundred thousand objects, a hundredth of them orphans of six kinds, and a reconciler as a
//! process of its own: which go, and how much memory that takes.

use crate::place::{Kind, Place, Row, at_each_pass, types};
use counterstep_contracts::TaskStatus;
use counterstep_reconciler::orphans::listing;
use counterstep_steps::CancelToken;
use counterstep_testkit::servers::S3;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What was planted.
#[derive(Default)]
struct Planted {
    stay: Vec<String>,
    go: Vec<String>,
}

/// `tasks` tasks with `outputs` outputs each, and on average a hundredth as many orphans, of six kinds: of
/// attempts that crashed before, in and after their uploads, of a paused writer, beside a failed undo, and
/// half an upload.
async fn plant(place: &Place<'_>, tasks: usize, outputs: usize) -> Planted {
    let mut planted = Planted::default();
    for n in 0..tasks {
        let (status, second) = match n % 6 {
            0 => (TaskStatus::Running, Kind::Overdue),
            1 | 2 => (TaskStatus::Dispatched, Kind::Overdue),
            3 => (TaskStatus::Completed, Kind::Swept),
            4 => (TaskStatus::CompensationFailed, Kind::Overdue),
            _ => (TaskStatus::Cancelled, Kind::Swept),
        };
        let rows = [
            Row::of(1, Kind::Kept),
            Row::of(2, second),
            Row::of(3, Kind::Live),
        ];
        let task = place.task(status, &rows).await;
        planted.stay.extend(place.many_old(task, 1, outputs));
        planted.stay.push(place.old(task, 3, "0"));
        match n % 6 {
            0 => {}
            1 => planted
                .go
                .extend([place.old(task, 2, "0"), place.half(task, 2, "1")]),
            2 | 4 => planted
                .go
                .extend([place.old(task, 2, "0"), place.old(task, 2, "1")]),
            3 => {
                planted
                    .go
                    .extend([place.old(task, 2, "0"), place.old(task, 2, "1")]);
                planted.stay.push(place.new_object(task, 2, "2"));
            }
            _ => planted
                .go
                .extend([place.half(task, 2, "0"), place.half(task, 2, "1")]),
        }
    }
    planted
}

/// A reconciler as a process of its own. Dropped, it is killed.
struct Reconciler(Child);

impl Drop for Reconciler {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

impl Reconciler {
    fn start(place: &Place<'_>, objects: &str, server: Option<&S3>) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_counterstep-reconciler"));
        let database = format!("sqlite://{}", place.database().display());
        command.args([
            "--every",
            "200ms",
            "--database",
            &database,
            "--objects",
            objects,
            "--data-dir",
        ]);
        command
            .arg(place.folder().join("data"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // One heap for all threads: how many heaps the allocator opens beside it depends on which
            // thread happened to run what, and that is not what grows with the objects.
            .env("MALLOC_ARENA_MAX", "1");
        if let Some(server) = server {
            command
                .env("AWS_ACCESS_KEY_ID", server.access_key())
                .env("AWS_SECRET_ACCESS_KEY", server.secret_key());
        }
        Self(command.spawn().expect("the reconciler starts"))
    }

    fn stop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).expect("it ends");
    }

    /// The most memory that it ever had at a time, in bytes.
    fn peak_memory(&self) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).expect("its status");
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))
            .expect("its peak");
        line.trim()
            .trim_end_matches(" kB")
            .parse::<u64>()
            .expect("a number of KiB")
            * 1024
    }
}

/// Waits until a reconciler has removed what should go; its peak memory. Another one then finds
/// nothing to do.
async fn swept(place: &Place<'_>, planted: &Planted, reconciler: &mut Reconciler) -> u64 {
    let until = Instant::now() + Duration::from_secs(240);
    while !place.all_gone(&planted.go) {
        assert!(
            reconciler.0.try_wait().expect("its state").is_none(),
            "the reconciler has ended"
        );
        assert!(
            Instant::now() < until,
            "{} orphans stay",
            planted.go.len() - place.missing(&planted.go).len()
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let peak = reconciler.peak_memory();
    reconciler.stop();
    let mut settings = place.settings.clone();
    at_each_pass(&mut settings);
    let (other, stop) = (place.another(), CancelToken::new());
    let listed = listing::run(&other, &settings.orphans, 1_000, &stop)
        .await
        .expect("a listing");
    assert_eq!(
        (listed.finished, listed.deleted, listed.failed),
        (1, 0, Vec::new())
    );
    assert_eq!(place.missing(&planted.stay), Vec::<String>::new());
    peak
}

/// What more objects may cost: much less than a listing of them would take, at a hundred bytes for
/// a key and its surroundings.
fn flat(small: u64, large: u64, more_objects: usize) {
    let whole = more_objects as u64 * 100;
    assert!(
        large < small + whole,
        "{large} bytes at the peak, {small} with {more_objects} objects less"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_hundred_thousand_objects_exactly_the_old_orphans_go_and_memory_stays_flat() {
    let mut peaks = Vec::new();
    for (tasks, outputs) in [(60, 165), (600, 165)] {
        let place = Place::new(types(), |_| {}).await;
        let planted = plant(&place, tasks, outputs).await;
        assert_eq!(planted.go.len(), tasks / 6 * 10);
        let url = format!("file://{}", place.objects().display());
        let mut reconciler = Reconciler::start(&place, &url, None);
        peaks.push(swept(&place, &planted, &mut reconciler).await);
    }
    flat(peaks[0], peaks[1], 540 * 167);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_as_many_in_buckets_too() {
    let mut peaks = Vec::new();
    for (tasks, outputs) in [(60, 165), (600, 165)] {
        let server = S3::start(&["objects", "incoming"]);
        let url = format!(
            "s3://objects?endpoint={}&map.incoming-files=incoming&part_mib=5",
            server.endpoint()
        );
        let place = Place::in_bucket(types(), &server, "incoming", &url).await;
        let planted = plant(&place, tasks, outputs).await;
        let mut reconciler = Reconciler::start(&place, &url, Some(&server));
        peaks.push(swept(&place, &planted, &mut reconciler).await);
    }
    flat(peaks[0], peaks[1], 540 * 167);
}
