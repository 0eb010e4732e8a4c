//! Gathers what a chaos run has left behind: the rows, the objects, the services' ledger and the clients'
//! answers. Changes nothing; what contradicts a promise there is judged in `judged`.

use super::Report;
use super::clients::Load;
use super::faults::Faults;
use super::fleet::Fleet;
use super::history::{self, Excepted};
use super::judged::{self, Left, Submitted};
use super::soak::KEY_KEPT;
use super::strikes::Strikes;
use crate::rows::{Known, Rows};
use crate::wait::{LATER, until};
use counterstep_contracts::{TaskId, TaskStatus};
use counterstep_testkit::invariants;
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// Within this time retention has deleted all tasks, once none comes.
const ALL_DELETED: Duration = KEY_KEPT.saturating_add(LATER);

pub(super) async fn of(
    mut fleet: Fleet,
    faults: Faults,
    load: Load,
    (strikes, excepted): (Strikes, Excepted),
) -> Report {
    let Load { submitted, unfit } = load;
    let mut report = Report {
        faults: faults
            .struck
            .iter()
            .map(|(kind, count)| (*kind, *count))
            .collect(),
        anomalies: faults.anomalies.clone(),
        ..Report::default()
    };
    until(
        "the end of late work at the HTTP services",
        LATER,
        || async { (fleet.services.late() == 0).then_some(()) },
    )
    .await;
    let rows = Rows::of_cluster(&fleet.cluster).await;
    let known = rows.tasks().await;
    report.in_doubt = known
        .iter()
        .filter(|known| known.trail().contains("in doubt"))
        .count();
    let waits = known
        .iter()
        .flat_map(|it| invariants::waits_for_hosts(&it.record, &it.history));
    report.waits = waits.map(|(_, waited)| waited).collect();
    report.waits.sort_unstable();
    report.answers = submitted.iter().map(|it| it.answered_in).collect();
    report.answers.sort_unstable();
    let mut ended: BTreeMap<String, usize> = BTreeMap::new();
    for task in &known {
        *ended
            .entry(format!(
                "{} {}",
                task.record.task.task_type, task.record.task.status
            ))
            .or_default() += 1;
    }
    report.ended = ended.into_iter().collect();
    for task in &submitted {
        report.compared += history::compared(&task.calls);
    }
    report.compared.refused += unfit.len();
    let left = Left {
        known: &known,
        submitted: &submitted,
        unfit: &unfit,
        unsettled: &unsettled(&fleet, &known, &submitted),
        oldest_unpublished: rows.oldest_unpublished().await,
        longest_wait: strikes.longest_wait(),
        excepted,
    };
    report.anomalies.extend(judged::anomalies(&left));
    let is_deleted = excepted.deleted_after.is_some();
    let sweeping = tokio::spawn(async move {
        if is_deleted {
            // In the end of a soak nothing is left of any task, objects neither.
            let none = || async { rows.tasks().await.is_empty().then_some(()) };
            until("the end of all tasks by retention", ALL_DELETED, none).await;
        }
        rows.assert_no_orphans().await;
    });
    if let Err(error) = sweeping.await {
        let text = error
            .try_into_panic()
            .map_or_else(|error| error.to_string(), |panic| text_of(panic.as_ref()));
        report.anomalies.push(format!("objects: {text}"));
    }
    report.void = faults.without_evidence(&fleet);
    let logs = if report.anomalies.is_empty() {
        String::new()
    } else {
        fleet.logs()
    };
    for anomaly in &mut report.anomalies {
        let about = lines_about(anomaly, &logs);
        anomaly.push_str(&about);
    }
    for at in 0..fleet.members.len() {
        let status = fleet.take(at).stop();
        if !status.success() {
            report.anomalies.push(format!(
                "{:?} ended with {status} when it was asked to stop",
                fleet.members[at].role
            ));
        }
    }
    report
}

/// Lines of the logs that name a task which an anomaly names: the run's folder is gone afterwards.
fn lines_about(anomaly: &str, logs: &str) -> String {
    let words = anomaly.split(|letter: char| !letter.is_ascii_hexdigit() && letter != '-');
    let tasks: BTreeSet<&str> = words
        .filter(|word| word.parse::<TaskId>().is_ok())
        .collect();
    let mut lines: Vec<&str> = logs
        .lines()
        .filter(|line| tasks.iter().any(|task| line.contains(task)))
        .collect();
    // Each begins with its time; those of a process with a wrong clock are out of order.
    lines.sort_unstable();
    lines
        .iter()
        .map(|line| format!("\n    log: {line}"))
        .collect()
}

/// What the services' ledger says against orders, whose rows say how they ended; or their clients, where the rows are deleted.
fn unsettled(fleet: &Fleet, known: &[Known], submitted: &[Submitted]) -> BTreeMap<TaskId, String> {
    let orders = submitted.iter().filter(|task| task.is_order);
    let of_row = |id| known.iter().find(|it| it.record.task.id == id);
    let ended = orders.filter_map(|task| {
        let row = of_row(task.task).map(|known| known.record.task.status);
        Some((task.task, row.or(task.status)?))
    });
    let against = |(id, status)| {
        let settled = catch_unwind(AssertUnwindSafe(|| {
            fleet
                .services
                .assert_settled(id, status == TaskStatus::Completed)
        }));
        Some((id, text_of(settled.err()?.as_ref())))
    };
    ended.filter_map(against).collect()
}

/// What a panic says.
pub(crate) fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "a panic".to_owned())
}
