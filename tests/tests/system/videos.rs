//! Videos in a deployment: a rendition says how far it is, across processes; and a worker without
//! ffmpeg says what it lacks.

use counterstep_contracts::http::{Accepted, TaskView};
use counterstep_contracts::{TaskId, TaskStatus};
use counterstep_tests::api::Api;
use counterstep_tests::cluster::Cluster;
use counterstep_tests::command::run;
use counterstep_tests::place::Place;
use counterstep_tests::process::Process;
use counterstep_tests::rows::Rows;
use counterstep_tests::services::{self, QUICK};
use counterstep_tests::wait::{LATER, until};
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use std::path::{Path, PathBuf};
use std::process::Command;

const ROUTE: &str = "/api/tasks/transcode-video";
const TIMES: &[&str] = &[
    "--lease",
    "3s",
    "--test-time",
    "cancel_grace=2s",
    "--drain",
    "2s",
];

fn video(place: &Place, frames: u32) -> Vec<u8> {
    let path = place.path().join("sample.mp4");
    let made = Command::new("ffmpeg")
        .args([
            "-v",
            "error",
            "-nostdin",
            "-f",
            "lavfi",
            "-i",
            "testsrc=s=1280x720:r=10",
        ])
        .args([
            "-frames:v",
            &frames.to_string(),
            "-c:v",
            "libx264",
            "-preset",
            "ultrafast",
            "-pix_fmt",
            "yuv420p",
        ])
        .arg(&path)
        .status();
    assert!(
        made.expect("ffmpeg is installed").success(),
        "the sample was not made"
    );
    std::fs::read(&path).expect("the sample")
}

async fn submit(api: &Api, quality: &str, bytes: Vec<u8>) -> TaskId {
    let form = Form::new().text("quality", quality.to_owned());
    let form = form.part("video", Part::bytes(bytes).file_name("sample.mp4"));
    let answer = api
        .request(Method::POST, ROUTE)
        .multipart(form)
        .send()
        .await
        .expect("an answer");
    assert_eq!(answer.status(), 202, "{:?}", answer.text().await);
    answer.json::<Accepted>().await.expect("a body").task_id
}

fn percent(view: &TaskView) -> Option<u8> {
    view.steps
        .iter()
        .find(|step| step.name == "render_720p")?
        .progress
        .as_ref()?
        .percent
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rendition_in_another_process_is_seen_to_go_on_over_http_and_on_the_command_line() {
    let cluster = Cluster::start(TIMES);
    let served = cluster.api();
    let (worker, _) = cluster.worker();
    // Seconds of work in this quality.
    let task = submit(&served.api, "high", video(&cluster.place, 150)).await;
    let first = until("a progress", LATER, || async {
        percent(&served.api.task(task).await)
    })
    .await;
    let tag = |answer: &reqwest::Response| {
        answer.headers()["etag"]
            .to_str()
            .expect("a text")
            .to_owned()
    };
    let path = format!("/api/tasks/{task}");
    let before = tag(&served
        .api
        .request(Method::GET, &path)
        .send()
        .await
        .expect("an answer"));
    let more = until("more of it", LATER, || async {
        percent(&served.api.task(task).await).filter(|&now| now > first)
    })
    .await;
    assert!(first < more && more <= 100, "{first} then {more}");
    let answer = served
        .api
        .request(Method::GET, &path)
        .header("if-none-match", &before)
        .send()
        .await;
    assert_eq!(
        answer.expect("an answer").status(),
        200,
        "the row is the same, the answer is not"
    );
    let shown = run(
        cluster.place.path(),
        &[
            "tasks",
            "--url",
            served.api.url(),
            "show",
            &task.to_string(),
        ],
    );
    let line = shown
        .assert_code(0)
        .stdout
        .lines()
        .find(|line| line.contains("render_720p"))
        .map(str::to_owned);
    assert!(
        line.as_ref().is_some_and(|line| line.contains('%')),
        "{line:?}"
    );

    // It is told to stop in the middle, and nothing of it stays.
    let answer = served
        .api
        .request(Method::DELETE, &path)
        .send()
        .await
        .expect("an answer");
    assert_eq!(answer.status(), 202);
    let view = served.api.at_rest(task).await;
    assert_eq!(
        (view.status, percent(&view)),
        (TaskStatus::Cancelled, None),
        "{view:#?}"
    );
    assert!(worker.stop().success());
    assert!(served.process.stop().success());
}

/// A folder with nothing in it to run but what starts the test's processes.
fn almost_empty_path(place: &Place) -> PathBuf {
    let folder = place.path().join("bin");
    std::fs::create_dir(&folder).expect("a folder");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let setpriv = std::env::split_paths(&path)
        .map(|folder| folder.join("setpriv"))
        .find(|file| file.is_file());
    if let Some(setpriv) = setpriv {
        std::os::unix::fs::symlink(setpriv, folder.join("setpriv")).expect("a link");
    }
    folder
}

fn worker_with(place: &Place, path: &Path) -> Process {
    let mut worker = Process::start_with(place, &[&["worker"], QUICK].concat(), &[("PATH", path)]);
    worker.says("that it has started", |said| {
        said.contains("worker started").then_some(())
    });
    worker
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_without_ffmpeg_fails_the_task_for_good_and_says_what_to_install() {
    let place = Place::new();
    let served = services::api(&place, QUICK);
    let worker = worker_with(&place, &almost_empty_path(&place));
    let task = submit(&served.api, "draft", video(&place, 2)).await;
    let view = served.api.at_rest(task).await;
    let failure = view.failure.as_ref().expect("a failure");
    assert_eq!(
        (view.status, failure.class.as_str()),
        (TaskStatus::Failed, "permanent"),
        "{view:#?}"
    );
    assert!(
        failure.message.contains("`ffprobe` cannot be run")
            && failure.message.contains("apt-get install ffmpeg")
    );
    let rows = Rows::of(&place).await;
    assert_eq!(rows.objects().await, [], "objects of a failed task");
    assert!(worker.stop().success());
    assert!(served.process.stop().success());
}
