//! `counterstep demo`: what a person sees first has to be true.

use counterstep_tests::archive::{assert_holds, assert_unzip_accepts};
use counterstep_tests::command::{Ended, counterstep, run};
use counterstep_tests::place::Place;
use counterstep_tests::sample::{Chance, Sample};
use std::path::PathBuf;
use std::process::Stdio;

fn samples(place: &Place) -> (Vec<Sample>, Vec<PathBuf>) {
    let mut chance = Chance::new(1);
    let samples = vec![
        Sample::random("report.bin", &mut chance, 300_000),
        Sample::new("list.txt", "one,two,three\n".repeat(1_000)),
        Sample::new("empty", ""),
    ];
    let paths = samples
        .iter()
        .map(|sample| place.write("sources", sample))
        .collect();
    (samples, paths)
}

fn demo(place: &Place, arguments: &[&str], files: &[PathBuf]) -> Ended {
    let files = files.iter().map(|path| path.to_str().expect("UTF-8"));
    let arguments: Vec<_> = ["demo"]
        .into_iter()
        .chain(arguments.iter().copied())
        .chain(files)
        .collect();
    run(place.path(), &arguments)
}

/// The line of the audit table with this event of this step.
fn line_of(ended: &Ended, event: &str, step: &str) -> usize {
    let is_it = |line: &str| {
        let mut words = line.split(|c: char| c.is_whitespace() || c == ':');
        words.any(|word| word == event) && words.any(|word| word == step)
    };
    ended
        .stdout
        .lines()
        .position(is_it)
        .unwrap_or_else(|| panic!("no `{event}` of `{step}`\n{}", ended.stdout))
}

fn assert_out_holds(place: &Place, samples: &[Sample]) {
    let out = place.path().join("out.zip");
    assert_unzip_accepts(&out);
    assert_holds(
        &std::fs::read(out).expect("the archive is written"),
        samples,
    );
}

#[test]
fn files_come_out_of_the_demo_byte_for_byte() {
    let place = Place::new();
    let (samples, paths) = samples(&place);
    demo(&place, &["--out", "out.zip"], &paths).assert_code(0);
    assert_out_holds(&place, &samples);
}

#[test]
fn two_files_of_one_name_are_both_in_the_archive() {
    let place = Place::new();
    let samples = [
        Sample::new("note.txt", "the first"),
        Sample::new("note.txt", "the second"),
    ];
    let paths = [place.write("a", &samples[0]), place.write("b", &samples[1])];
    demo(&place, &["--out", "out.zip"], &paths).assert_code(0);
    assert_out_holds(&place, &samples);
}

#[test]
fn without_files_the_demo_makes_its_own() {
    let place = Place::new();
    demo(&place, &[], &[]).assert_code(0);
    assert_unzip_accepts(&place.path().join("out.zip"));
}

#[test]
fn a_demo_that_fails_at_the_upload_shows_everything_undone_in_reverse() {
    let place = Place::new();
    let (_, paths) = samples(&place);
    let ended = demo(&place, &["--fail-at", "upload_zip"], &paths);
    ended.assert_code(0);
    let undo = [
        line_of(&ended, "undo_succeeded", "upload_zip"),
        line_of(&ended, "undo_waived", "create_zip_archive"),
        line_of(&ended, "undo_succeeded", "upload_source_files"),
    ];
    assert!(undo.is_sorted(), "{undo:?}\n{}", ended.stdout);
    assert!(ended.stdout.contains(" is failed\n"), "{}", ended.stdout);
    assert!(
        ended.stdout.contains("\nNo object is left\n"),
        "{}",
        ended.stdout
    );
    assert!(
        !place.path().join("out.zip").exists(),
        "a failed task has no result"
    );
}

#[test]
fn a_demo_that_fails_at_the_archive_undoes_the_uploads() {
    let place = Place::new();
    let (_, paths) = samples(&place);
    let ended = demo(&place, &["--fail-at", "create_zip_archive"], &paths);
    ended.assert_code(0);
    let waived = line_of(&ended, "undo_waived", "create_zip_archive");
    assert!(
        waived < line_of(&ended, "undo_succeeded", "upload_source_files"),
        "{}",
        ended.stdout
    );
    assert!(
        !ended.stdout.contains("upload_zip: pending → running"),
        "{}",
        ended.stdout
    );
    assert!(ended.stdout.contains(" is failed\n"), "{}", ended.stdout);
    assert!(
        ended.stdout.contains("\nNo object is left\n"),
        "{}",
        ended.stdout
    );
}

fn assert_survives_a_crash_at(step: &str) {
    let place = Place::new();
    let (samples, paths) = samples(&place);
    let ended = demo(&place, &["--crash-at", step, "--out", "out.zip"], &paths);
    ended.assert_code(0);
    assert!(
        ended.stdout.contains("with SIGKILL in the middle of"),
        "{}",
        ended.stdout
    );
    assert!(ended.stdout.contains(" is completed\n"), "{}", ended.stdout);
    for name in ["upload_source_files", "create_zip_archive", "upload_zip"] {
        let tries = if name == step {
            "2 attempts"
        } else {
            "1 attempt"
        };
        let line = format!("\n{name}: {tries}, 1 committed output\n");
        assert!(
            ended.stdout.contains(&line),
            "`{line}` is not in\n{}",
            ended.stdout
        );
    }
    let objects = format!("\n{} objects are left, ", samples.len() + 1);
    assert!(
        ended.stdout.contains(&objects) && ended.stdout.contains("; no orphan\n"),
        "{}",
        ended.stdout
    );
    assert_out_holds(&place, &samples);
}

#[test]
fn a_demo_whose_worker_is_killed_at_the_archive_completes() {
    assert_survives_a_crash_at("create_zip_archive");
}

#[test]
fn a_demo_whose_worker_is_killed_at_the_upload_completes_without_an_orphan() {
    assert_survives_a_crash_at("upload_zip");
}

#[test]
fn a_step_that_no_fault_can_be_planted_at_is_refused_with_the_choices() {
    let place = Place::new();
    for flag in ["--fail-at", "--crash-at"] {
        for step in ["upload_source_files", "no_such_step", ""] {
            let ended = demo(&place, &[flag, step], &[]);
            ended
                .assert_code(78)
                .assert_says("create_zip_archive, upload_zip");
        }
    }
}

#[test]
fn a_file_that_cannot_be_read_ends_the_demo_before_anything_is_sent() {
    let place = Place::new();
    std::fs::create_dir(place.path().join("folder")).expect("a folder");
    for path in ["missing.txt", "folder"] {
        let ended = demo(&place, &[], &[path.into()]);
        ended.assert_code(2).assert_says(path);
        assert!(ended.stdout.is_empty(), "{}", ended.stdout);
    }
    assert!(!place.path().join("out.zip").exists());
}

#[test]
fn a_place_that_cannot_be_written_ends_the_demo_before_anything_runs() {
    let place = Place::new();
    std::fs::create_dir(place.path().join("folder")).expect("a folder");
    for path in ["missing/x.zip", "folder"] {
        let ended = demo(&place, &["--out", path], &[]);
        ended
            .assert_code(2)
            .assert_says(&format!("--out: `{path}` cannot be written: "));
        assert!(ended.stdout.is_empty(), "{}", ended.stdout);
        assert!(!ended.stderr.contains(".counterstep-"), "{}", ended.stderr);
    }
}

/// Standard output is a pipe that no process reads any more.
fn unread(place: &Place, arguments: &[&str]) -> Ended {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = counterstep();
    command.args(arguments).stdout(writer);
    let ended = command.current_dir(place.path()).stderr(Stdio::piped());
    let ended = ended.output().expect("it ends");
    Ended {
        code: ended.status.code(),
        stdout: String::new(),
        stderr: String::from_utf8_lossy(&ended.stderr).into_owned(),
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let place = Place::new();
    for arguments in [
        &["demo"][..],
        &["reconciler", "--once"],
        &["reconciler", "--dry-run"],
    ] {
        unread(&place, arguments).assert_code(0);
    }
}
