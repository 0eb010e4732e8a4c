//! The processes of ffmpeg and their files: what they say of their progress, and that nothing of
//! them is left after a cancel or an attempt that took too long.

use super::{transcoding, video};
use counterstep_kernel::client;
use counterstep_kernel::status::progress;
use counterstep_steps::contracts::http::CancelOutcome;
use counterstep_steps::contracts::{AttemptProgress, Direction, TaskStatus};
use counterstep_testkit::many_tasks::eventually;
use counterstep_testkit::{Form, Harness};
use std::path::Path;
use std::time::Duration;

/// Commands of running processes that name something in a folder; one that has ended and was not
/// waited for has none, so zombies are counted apart.
fn running_in(folder: &Path) -> Vec<String> {
    let folder = folder.to_str().expect("a plain path");
    let commands = std::fs::read_dir("/proc")
        .expect("/proc")
        .flatten()
        .filter_map(|entry| {
            let command = std::fs::read(entry.path().join("cmdline")).ok()?;
            Some(String::from_utf8_lossy(&command).replace('\0', " "))
        });
    commands
        .filter(|command| command.starts_with("ff") && command.contains(folder))
        .collect()
}

/// Children of this process that have ended and were not waited for.
fn zombies() -> usize {
    let own = format!("{}", std::process::id());
    let stats = std::fs::read_dir("/proc").expect("/proc").flatten();
    stats
        .filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok())
        .filter(|stat| {
            // `pid (name) state parent ..`
            let Some((name, rest)) = stat.rsplit_once(") ") else {
                return false;
            };
            name.contains("(ff") && rest.starts_with(&format!("Z {own} "))
        })
        .count()
}

fn files_in(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            found.extend(files_in(&entry.path()))
        } else {
            found.push(entry.path().display().to_string())
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_is_seen_and_a_cancel_or_the_limit_of_an_attempt_ends_ffmpeg_and_leaves_no_file() {
    // Seconds of work in this quality.
    let long = video("1280x720", 120);
    let slow = || {
        Form::new()
            .field("quality", "high")
            .file("video", "long.mp4", long.clone())
    };
    let mut site = Harness::embedded(transcoding()).start().await;
    site.serve(2);
    let task = site.submit(slow()).await;
    let said = eventually("a progress of a rendition", || async {
        let record = site.record(task).await;
        let said = progress::progress_of(&site.engine, &record)
            .await?
            .steps
            .remove("render_720p")?;
        (said.done > 0 && !running_in(site.folder()).is_empty()).then_some(said)
    })
    .await;
    let AttemptProgress {
        direction,
        done,
        total,
        ..
    } = said;
    assert!(
        direction == Direction::Forward && done <= total && (11_000..14_000).contains(&total),
        "{done}/{total}"
    );
    let answer = client::cancel(&site.engine, task, "client")
        .await
        .expect("it can be cancelled")
        .answer;
    assert_eq!(answer.outcome, CancelOutcome::Stopping);
    site.all_are(TaskStatus::Cancelled, &[task]).await;
    // At once: the step waited for it.
    assert_eq!(running_in(site.folder()), Vec::<String>::new());
    site.assert_invariants(&[task]).await;
    eventually("an empty scratch", || async {
        files_in(&site.folder().join("scratch"))
            .is_empty()
            .then_some(())
    })
    .await;
    assert_eq!(
        files_in(&site.folder().join("objects")),
        Vec::<String>::new()
    );

    // Each attempt is too short for it: in the end the task is undone.
    let mut site = Harness::embedded(transcoding())
        .settings(|settings| settings.longest_attempt = Some(Duration::from_millis(1500)))
        .start()
        .await;
    site.serve(2);
    let task = site.submit(slow()).await;
    let record = site.all_are(TaskStatus::Failed, &[task]).await.remove(0);
    assert_eq!(record.task.failure.expect("a failure").class, "timed_out");
    eventually("no ffmpeg, dead or alive", || async {
        (running_in(site.folder()).is_empty() && zombies() == 0).then_some(())
    })
    .await;
    eventually("an empty scratch", || async {
        files_in(&site.folder().join("scratch"))
            .is_empty()
            .then_some(())
    })
    .await;
}
