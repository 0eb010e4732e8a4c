//! TranscodeVideo with the real ffmpeg, on tiny videos that ffmpeg makes for the tests.

#[path = "transcode_video/processes.rs"]
mod processes;

use counterstep_kernel::Engine;
use counterstep_kernel::engine::faults::{Fault, FaultKind};
use counterstep_kernel::turn::turn;
use counterstep_steps::contracts::{Host, StepStatus, TaskStatus};
use counterstep_steps::{CancelToken, Registry};
use counterstep_tasks::TranscodeVideo;
use counterstep_tasks::transcode_video::TranscodeVideoResponse;
use counterstep_testkit::many_tasks::eventually;
use counterstep_testkit::{Form, Harness, TestTask, sweep};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

fn transcoding() -> Registry {
    Registry::new().with::<TranscodeVideo>()
}

/// An MP4 with a moving picture of this size, and with a tone.
fn video(size: &str, frames: u32) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("sample.mp4");
    let picture = format!("testsrc=s={size}:r=10");
    let made = Command::new("ffmpeg")
        .args([
            "-v",
            "error",
            "-nostdin",
            "-f",
            "lavfi",
            "-i",
            &picture,
            "-f",
            "lavfi",
            "-i",
            "sine=r=8000",
        ])
        .args([
            "-frames:v",
            &frames.to_string(),
            "-shortest",
            "-c:v",
            "libx264",
            "-preset",
            "ultrafast",
        ])
        .args([
            "-pix_fmt",
            "yuv420p",
            "-c:a",
            "aac",
            "-metadata",
            "artist=Ada Example",
            "-y",
        ])
        .arg(&path)
        .status();
    assert!(
        made.expect("ffmpeg is installed").success(),
        "the sample was not made"
    );
    std::fs::read(&path).expect("the sample")
}

fn form(bytes: Vec<u8>) -> Form {
    Form::new()
        .field("quality", "draft")
        .file("video", "my holiday.mov", bytes)
}

/// Two renditions.
fn in_720p() -> Form {
    static SAMPLE: OnceLock<Vec<u8>> = OnceLock::new();
    form(SAMPLE.get_or_init(|| video("1280x720", 3)).clone())
}

/// The same of the fewest pixels and frames that have both: a sweep renders it hundreds of times.
fn square_in_720p() -> Form {
    static SAMPLE: OnceLock<Vec<u8>> = OnceLock::new();
    form(SAMPLE.get_or_init(|| video("720x720", 2)).clone())
}

async fn completed(task: &TestTask) -> TranscodeVideoResponse {
    assert_eq!(
        task.run_to_rest().await,
        TaskStatus::Completed,
        "{}",
        task.trail().await
    );
    task.assert_invariants().await;
    task.assert_no_orphans().await;
    let response = task.record().await.task.response.expect("a response");
    serde_json::from_value(response).expect("the declared response")
}

/// Name, width and height of the renditions.
fn sizes(response: &TranscodeVideoResponse) -> Vec<(String, u32, u32)> {
    response
        .renditions
        .iter()
        .map(|made| (made.file.name.to_string(), made.width, made.height))
        .collect()
}

fn owned(sizes: &[(&str, u32, u32)]) -> Vec<(String, u32, u32)> {
    sizes
        .iter()
        .map(|&(name, width, height)| (name.to_owned(), width, height))
        .collect()
}

async fn skipped(task: &TestTask) -> Vec<String> {
    let steps = task.record().await.steps;
    steps
        .into_iter()
        .filter(|row| row.status == StepStatus::Skipped)
        .map(|row| row.name)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_video_comes_in_the_sizes_that_it_has_and_the_others_are_recorded_as_skipped() {
    let task = Harness::embedded(transcoding())
        .submit(form(video("640x480", 10)))
        .await;
    let response = completed(&task).await;
    assert_eq!((response.width, response.height), (640, 480));
    assert!(
        (900..=1_300).contains(&response.duration_ms.unwrap()),
        "{:?}",
        response.duration_ms
    );
    assert_eq!(
        sizes(&response),
        owned(&[("my holiday-480p.mp4", 640, 480)])
    );
    assert_eq!(
        skipped(&task).await,
        [
            "render_as_is",
            "render_720p",
            "render_1080p",
            "render_2160p"
        ]
    );
    assert_eq!(response.thumbnail.name.as_str(), "my holiday-thumbnail.jpg");
    let manifest = read(&task, &response.manifest).await;
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).expect("JSON");
    assert_eq!(
        manifest["renditions"][0]["key"],
        response.renditions[0].file.key
    );
    let jpeg = read(&task, &response.thumbnail).await;
    assert!(jpeg.starts_with(&[0xff, 0xd8, 0xff]), "no JPEG");
    // Playable, with picture and sound, and without what the source says of its maker.
    let mp4 = read(&task, &response.renditions[0].file).await;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("made.mp4");
    std::fs::write(&path, &mp4).unwrap();
    let entries = "stream=codec_name:format_tags=artist";
    let arguments = ["-v", "error", "-show_entries", entries, "-of", "csv"];
    let said = Command::new("ffprobe")
        .args(arguments)
        .arg(&path)
        .output()
        .expect("ffprobe is installed");
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(
        said.contains("h264") && said.contains("aac") && !said.contains("Ada Example"),
        "{said}"
    );

    // Smaller than the smallest, and of odd sides.
    let task = Harness::embedded(transcoding())
        .submit(form(video("98x50", 2)).field("name", "tiny.webm"))
        .await;
    let response = completed(&task).await;
    assert_eq!(sizes(&response), owned(&[("tiny-source.mp4", 98, 50)]));
    assert_eq!(response.thumbnail.name.as_str(), "tiny-thumbnail.jpg");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_4k_video_has_4k_and_an_upright_one_is_measured_by_its_shorter_side() {
    let large = video("3840x2160", 2);
    let task = Harness::embedded(transcoding())
        .submit(form(large.clone()))
        .await;
    let expected = [
        ("my holiday-480p.mp4", 854, 480),
        ("my holiday-720p.mp4", 1280, 720),
        ("my holiday-1080p.mp4", 1920, 1080),
        ("my holiday-2160p.mp4", 3840, 2160),
    ];
    assert_eq!(sizes(&completed(&task).await), owned(&expected));
    assert_eq!(skipped(&task).await, ["render_as_is"]);

    // A client gets only the renditions that it asks for.
    let form = Form::new()
        .field("largest", "720p")
        .field("quality", "draft")
        .file("video", "v", large);
    let task = Harness::embedded(transcoding()).submit(form).await;
    let expected = [("v-480p.mp4", 854, 480), ("v-720p.mp4", 1280, 720)];
    assert_eq!(sizes(&completed(&task).await), owned(&expected));

    let task = Harness::embedded(transcoding())
        .submit(self::form(video("720x1280", 2)))
        .await;
    let expected = [
        ("my holiday-480p.mp4", 480, 854),
        ("my holiday-720p.mp4", 720, 1280),
    ];
    assert_eq!(sizes(&completed(&task).await), owned(&expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn renditions_run_side_by_side() {
    let harness = Harness::embedded(transcoding()).settings(|settings| settings.heavy = 3);
    let task = harness.submit(in_720p()).await;
    completed(&task).await;
    let (record, history) = (task.record().await, task.history().await);
    let of = |name: &str| {
        let no = record.steps.iter().find(|row| row.name == name).unwrap().no;
        let attempt = history.attempts.iter().find(|row| row.step == no).unwrap();
        (
            attempt.started_at,
            attempt.ended_at.unwrap(),
            attempt.change_id,
        )
    };
    let group = [of("render_480p"), of("render_720p"), of("make_thumbnail")];
    let last_start = group.iter().map(|attempt| attempt.0).max().unwrap();
    let first_end = group.iter().map(|attempt| attempt.1).min().unwrap();
    assert!(last_start < first_end, "{group:?}");
    assert!(
        group.iter().all(|attempt| attempt.2 == group[0].2),
        "started by one change: {group:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn one_rendition_that_fails_undoes_all_and_leaves_no_object() {
    // Room for all of the group: what has not started is not undone.
    let harness = Harness::embedded(transcoding()).settings(|settings| settings.heavy = 3);
    let task = harness.fail_at("render_720p").submit(in_720p()).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    task.assert_invariants().await;
    task.assert_no_orphans().await;
    task.assert_no_objects().await;
    let trail = task.trail().await;
    for words in [
        "render_720p failed",
        "render_480p undone",
        "make_thumbnail undone",
        "upload_source undone",
    ] {
        assert!(trail.contains(words), "`{words}` is not in {trail}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_is_gone_is_fetched_again_beside_renditions_that_have_read_it() {
    let fault = |n| Fault::at("render_720p", FaultKind::FailTransiently).on_attempt(n);
    // Often enough to sleep, when the others have completed.
    let harness = (1..=3).fold(Harness::embedded(transcoding()), |harness, n| {
        harness.fault(fault(n))
    });
    let task = harness.submit(in_720p()).await;
    task.run_to_wait().await;
    // As it is on another worker.
    let scratch = &task.engine.ports.scratch;
    scratch.remove(task.id).await.expect("the scratch goes");
    assert_eq!(completed(&task).await.renditions.len(), 2);
    let trail = task.trail().await;
    assert!(
        trail.contains("probe_source rebuilt, render_720p ok"),
        "{trail}"
    );
    assert_eq!(trail.matches("render_480p ok").count(), 1, "{trail}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_worker_that_takes_over_in_the_middle_fetches_the_source_again_and_renders_only_what_is_missing()
 {
    let task = Harness::embedded(transcoding()).submit(in_720p()).await;
    let mut settings = (*task.engine.settings).clone();
    settings
        .faults
        .push(Fault::at("render_720p", FaultKind::Hang));
    let doomed = Engine::new(
        task.engine.ports.clone(),
        task.engine.registry.clone(),
        settings,
        "doomed",
    );
    let id = task.id;
    let running =
        tokio::spawn(async move { turn(&doomed, Host::Worker, id, &CancelToken::new()).await });
    eventually("the others to be done", || async {
        let steps = task.record().await.steps;
        let is = |name: &str, status| {
            steps
                .iter()
                .any(|row| row.name == name && row.status == status)
        };
        let done =
            is("render_480p", StepStatus::Completed) && is("make_thumbnail", StepStatus::Completed);
        (done && is("render_720p", StepStatus::Running)).then_some(())
    })
    .await;
    // Like SIGKILL; and the one that takes over has another disk.
    running.abort();
    let _ = running.await;
    task.engine
        .ports
        .scratch
        .remove(task.id)
        .await
        .expect("the scratch goes");
    assert_eq!(
        task.run_to_rest().await,
        TaskStatus::Completed,
        "{}",
        task.trail().await
    );
    task.assert_invariants().await;
    let trail = task.trail().await;
    let end =
        "render_720p in doubt, probe_source rebuilt, render_720p ok, store_manifest ok, completed";
    assert!(trail.ends_with(end), "{trail}");
    assert_eq!(trail.matches("render_480p ok").count(), 1, "{trail}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_video_is_refused_for_good_and_a_play_list_opens_nothing() {
    let list =
        "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nfile:///etc/hostname\n#EXT-X-ENDLIST\n";
    let mut torn = video("640x480", 2);
    torn.truncate(200);
    for bytes in [
        b"no video at all".to_vec(),
        list.into(),
        b"ffconcat version 1.0\nfile /etc/hostname\n".to_vec(),
        torn,
    ] {
        let task = Harness::embedded(transcoding()).submit(form(bytes)).await;
        assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
        let failure = task.record().await.task.failure.expect("a failure");
        assert_eq!(
            (failure.step.as_deref(), failure.class.as_str()),
            (Some("probe_source"), "permanent")
        );
        assert!(
            failure
                .message
                .contains("ffprobe cannot work with this video"),
            "{}",
            failure.message
        );
        assert!(
            failure.message.len() < 800 && !failure.message.contains("scratch"),
            "{}",
            failure.message
        );
        task.assert_no_objects().await;
    }
    // Sound alone is none either.
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tone.mp4");
    let tone = Command::new("ffmpeg")
        .args(["-v", "error", "-f", "lavfi", "-i", "sine=d=1"])
        .arg(&path)
        .status();
    assert!(tone.expect("ffmpeg is installed").success());
    let task = Harness::embedded(transcoding())
        .submit(form(std::fs::read(&path).unwrap()))
        .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    assert!(
        task.record()
            .await
            .task
            .failure
            .unwrap()
            .message
            .contains("no video in it")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_at_every_step_of_transcode_video_leaves_a_clean_slate() {
    sweep::every_fault_within(transcoding, square_in_720p, Duration::from_secs(60)).await;
}

async fn read(task: &TestTask, file: &counterstep_steps::StoredFile) -> Vec<u8> {
    use futures::TryStreamExt;
    let body = task
        .engine
        .ports
        .objects
        .get(&file.bucket, &file.key)
        .await
        .expect("the object is there");
    let pieces: Vec<_> = body.try_collect().await.expect("its bytes");
    pieces.concat()
}
