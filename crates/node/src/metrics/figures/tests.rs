//! What each observation counts.

use super::*;
use counterstep_kernel::ports::MOST_LABEL_VALUES;
use counterstep_tasks::CreateZipFromFiles;

const ZIP: &str = "CreateZipFromFiles";

fn metrics(labels: &[&str]) -> Metrics {
    let labels: Vec<_> = labels.iter().map(|&name| name.to_owned()).collect();
    Metrics::of(&Registry::new().with::<CreateZipFromFiles>(), &labels)
}

fn page(metrics: &Metrics) -> String {
    let mut page = String::new();
    metrics.write(&mut page);
    page
}

fn shows(metrics: &Metrics, line: &str) {
    let page = page(metrics);
    assert!(page.lines().any(|it| it == line), "{line}\n{page}");
}

fn labels(of: &[(&str, &str)]) -> Labels {
    let mut labels = Labels::new();
    for (name, value) in of {
        labels.add(name, value).unwrap();
    }
    labels
}

fn rest(metrics: &Metrics, status: TaskStatus, of: &[(&str, &str)]) {
    metrics.record(Observation::Rest {
        task_type: ZIP,
        status,
        labels: &labels(of),
        after: Duration::from_millis(1500),
    });
}

#[test]
fn each_observation_has_its_figure() {
    let metrics = metrics(&[]);
    let nothing = page(&metrics);
    assert!(nothing.contains("\ncounterstep_undos_total{task_type=\"CreateZipFromFiles\"} 0\n"));
    assert!(
        !nothing.contains("le="),
        "histograms come with their first value"
    );

    for outcome in SubmissionOutcome::ALL {
        let task_type = ZIP;
        metrics.record(Observation::Submission {
            task_type,
            outcome: *outcome,
        });
        let outcome = outcome.as_str();
        shows(
            &metrics,
            &format!(
                "counterstep_submissions_total{{task_type=\"{ZIP}\",outcome=\"{outcome}\"}} 1"
            ),
        );
    }
    rest(&metrics, TaskStatus::Failed, &[("order", "7")]);
    metrics.record(Observation::Claim {
        task_type: ZIP,
        after: Duration::from_millis(10),
    });
    metrics.record(Observation::Attempt {
        task_type: ZIP,
        step: "upload_zip",
        direction: Direction::Undo,
        outcome: Outcome::InDoubt,
        took: Duration::from_secs(200_000),
    });
    metrics.record(Observation::Undo { task_type: ZIP });
    metrics.record(Observation::Recovery { task_type: ZIP });
    metrics.record(Observation::FoundByPolling { task_type: ZIP });
    metrics.record(Observation::LeaseLost);
    metrics.record(Observation::Spooled(SpoolOutcome::Fenced));
    metrics.record(Observation::Abandoned);
    metrics.record(Observation::Webhook {
        status: DeliveryStatus::Failed,
    });
    for line in [
        "counterstep_attempts_abandoned_total 1",
        "counterstep_tasks_ended_total{task_type=\"CreateZipFromFiles\",status=\"failed\"} 1",
        "counterstep_tasks_ended_total{task_type=\"CreateZipFromFiles\",status=\"completed\"} 0",
        "# TYPE counterstep_task_duration_seconds histogram",
        "# UNIT counterstep_task_duration_seconds seconds",
        "counterstep_task_duration_seconds_sum{task_type=\"CreateZipFromFiles\",status=\"failed\"} 1.5",
        "counterstep_task_duration_seconds_bucket{le=\"1.0\",task_type=\"CreateZipFromFiles\",status=\"failed\"} 0",
        "counterstep_task_duration_seconds_bucket{le=\"2.5\",task_type=\"CreateZipFromFiles\",status=\"failed\"} 1",
        // A bound belongs to its bucket.
        "counterstep_claim_wait_seconds_bucket{le=\"0.01\",task_type=\"CreateZipFromFiles\"} 1",
        "counterstep_claim_wait_seconds_bucket{le=\"0.005\",task_type=\"CreateZipFromFiles\"} 0",
        "counterstep_attempts_total{task_type=\"CreateZipFromFiles\",step=\"upload_zip\",direction=\"undo\",outcome=\"in_doubt\"} 1",
        "counterstep_attempt_duration_seconds_bucket{le=\"86400.0\",task_type=\"CreateZipFromFiles\",step=\"upload_zip\",direction=\"undo\"} 0",
        "counterstep_attempt_duration_seconds_bucket{le=\"+Inf\",task_type=\"CreateZipFromFiles\",step=\"upload_zip\",direction=\"undo\"} 1",
        "counterstep_undos_total{task_type=\"CreateZipFromFiles\"} 1",
        "counterstep_recoveries_total{task_type=\"CreateZipFromFiles\"} 1",
        "counterstep_found_by_polling_total{task_type=\"CreateZipFromFiles\"} 1",
        "counterstep_leases_lost_total 1",
        "counterstep_spooled_results_total{outcome=\"fenced\"} 1",
        "counterstep_spooled_results_total{outcome=\"kept\"} 0",
        "counterstep_webhooks_total{status=\"failed\"} 1",
        "counterstep_webhooks_total{status=\"delivered\"} 0",
    ] {
        shows(&metrics, line);
    }
}

#[test]
fn a_type_that_the_program_does_not_have_makes_no_series() {
    let metrics = metrics(&[]);
    let before = page(&metrics).lines().count();
    let task_type = "Another";
    metrics.record(Observation::Undo { task_type });
    metrics.record(Observation::Claim {
        task_type,
        after: Duration::ZERO,
    });
    assert_eq!(page(&metrics).lines().count(), before);
}

#[test]
fn tasks_that_end_are_counted_by_labels_up_to_a_bound() {
    let metrics = metrics(&["customer", "a.b"]);
    let done = TaskStatus::Completed;
    rest(&metrics, done, &[]);
    rest(
        &metrics,
        done,
        &[("customer", "x \"y\" \\"), ("order", "1")],
    );
    for at in 0..MOST_LABEL_VALUES {
        let value = at.to_string();
        rest(&metrics, done, &[("customer", "7"), ("a.b", &value)]);
    }
    rest(&metrics, done, &[("customer", "7"), ("a.b", "0")]);
    // Shown as it is in every state, and counted for one of them.
    rest(
        &metrics,
        TaskStatus::Failed,
        &[("customer", "7"), ("a.b", "0")],
    );
    let line = |status: &str, customer: &str, other: &str, count: u32| {
        shows(
            &metrics,
            &format!(
                "counterstep_tasks_ended_total{{task_type=\"{ZIP}\",status=\"{status}\",\
                 label_customer=\"{customer}\",label_a_b=\"{other}\"}} {count}"
            ),
        );
    };
    line("completed", "", "", 1);
    line("completed", "x \\\"y\\\" \\\\", "", 1);
    line("completed", "7", "0", 2);
    line("failed", "7", "0", 1);
    line("completed", "7", "97", 1);
    line("completed", "other", "other", 2);
    let page = page(&metrics);
    let completed = page.lines().filter(|line| {
        line.starts_with("counterstep_tasks_ended_total") && line.contains("completed")
    });
    assert_eq!(completed.count(), MOST_LABEL_VALUES + 1);
}
