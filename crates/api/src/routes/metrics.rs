//! `GET /metrics`: what is under way in the installation, and what this process has done; and
//! `GET /api/history`: the last hour of it. What the database does not say is left out, and `counterstep_database_up` says so.

use super::answer::Answer;
use crate::app_state::Api;
use crate::query::Params;
use actix_web::http::header::{ACCEPT, CONTENT_TYPE};
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_contracts::open_effects::OpenEffectSums;
use counterstep_contracts::workers::{StatusView, WorkerState, WorkerView};
use counterstep_kernel::ports::{ParkedCount, TaskCount};
use counterstep_kernel::status::{InstallationFigures, LimitFigures};
use counterstep_node::metrics::{Format, label_key};
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;

/// Numbers of any size as Prometheus has them: it knows nothing but floating point.
type Number = Gauge<f64, AtomicU64>;
type Labels = Vec<(Cow<'static, str>, String)>;

pub(super) async fn history(api: web::Data<Api>, request: HttpRequest) -> Answer {
    Params::of(&request, &[])?;
    Ok(HttpResponse::Ok().json(api.history.view()))
}

pub(super) async fn metrics(api: web::Data<Api>, request: HttpRequest) -> Answer {
    Params::of(&request, &[])?;
    let accept = request.headers().get(ACCEPT);
    let format = Format::wanted(accept.and_then(|value| value.to_str().ok()));
    Ok(HttpResponse::Ok()
        .insert_header((CONTENT_TYPE, format.content_type()))
        .body(format.of(page(&api).await)))
}

/// The whole page, in the text format of OpenMetrics.
pub(crate) async fn page(api: &Api) -> String {
    let found = api.gauges.get(&api.engine, api.settings.gauges_for).await;
    let mut registry = registry(found.as_ref(), &api.engine.settings.metrics_labels);
    // Of a database that does not answer there is nothing.
    if let Some(found) = found {
        let keep = api.settings.gauges_for;
        let parked = found.parked.iter().map(|it| it.count).sum();
        let sums = api.gauges.open_effects(&api.engine, keep, parked);
        if let Some(sums) = sums.await {
            add_open_effects(&mut registry, &sums);
        }
    }
    let mut page = String::new();
    // A text takes whatever is written to it.
    let _ = encode_registry(&mut page, &registry);
    api.process_page.write(&mut page).await;
    api.settings.beside.write_metrics(&mut page);
    let _ = encode_eof(&mut page);
    page
}

fn registry(found: Option<&InstallationFigures>, task_labels: &[String]) -> Registry {
    let mut registry = Registry::with_prefix("counterstep");
    one(
        &mut registry,
        "database_up",
        "1 where the database answered, 0 where it did not",
        found.is_some().into(),
    );
    let Some(InstallationFigures {
        view: found,
        tasks,
        queues,
        limits,
        parked,
    }) = found
    else {
        return registry;
    };
    let paused = queues
        .iter()
        .map(|(queue, paused)| (labelled("queue", &queue.0), u64::from(*paused)));
    let help = "1 where a person has paused the queue, 0 where not";
    add(&mut registry, "queue_paused", help, paused);
    add_limits(&mut registry, limits);
    add_tasks(&mut registry, tasks, task_labels);
    add_parked(&mut registry, parked);
    add_status(&mut registry, &found.status);
    let passes = found
        .workers
        .iter()
        .filter_map(|worker| worker.last_pass.as_ref());
    if let Some(last) = passes.min_by_key(|pass| pass.seconds_ago) {
        let help = "Seconds since the end of the last pass of any reconciler";
        one(
            &mut registry,
            "last_pass_age_seconds",
            help,
            last.seconds_ago,
        );
        let counts = last
            .counts
            .iter()
            .map(|(what, count)| (labelled("what", what), *count));
        add(
            &mut registry,
            "last_pass",
            "What that pass did, by kind",
            counts,
        );
    }
    let slots = "Tasks at a time, of the processes that are alive, by role";
    add(
        &mut registry,
        "slots",
        slots,
        by_role(&found.workers, |worker| worker.concurrency.into()),
    );
    let busy = "Tasks that these processes ran when they were seen last, by role";
    add(
        &mut registry,
        "slots_busy",
        busy,
        by_role(&found.workers, |worker| worker.running_count.into()),
    );
    registry
}

/// One label.
fn labelled(name: &'static str, value: &str) -> Labels {
    vec![(name.into(), value.to_owned())]
}

fn add_tasks(registry: &mut Registry, tasks: &[TaskCount], task_labels: &[String]) {
    let keys: Vec<_> = task_labels.iter().map(|name| label_key(name)).collect();
    let tasks = tasks.iter().map(|tasks| {
        let own = keys.iter().zip(&tasks.labels);
        let mut labels = labelled("status", tasks.status.as_str());
        labels.push(("queue".into(), tasks.queue.clone()));
        labels.extend(own.map(|(key, value)| (key.clone().into(), value.clone())));
        (labels, tasks.count)
    });
    let help = "Tasks that have not ended, parked ones included, by status, queue and the labels of the settings";
    add(registry, "tasks", help, tasks);
}

fn add_limits(registry: &mut Registry, limits: &[LimitFigures]) {
    let of = |number: fn(&LimitFigures) -> u64| {
        let one = move |limit: &LimitFigures| (labelled("limit", &limit.name), number(limit));
        limits.iter().map(one)
    };
    let help = "Permits of limits of steps that are held, over all processes";
    add(registry, "limit_permits_held", help, of(|it| it.held));
    let help = "Attempts that wait for a permit of a limit, over all processes";
    add(
        registry,
        "limit_attempts_waiting",
        help,
        of(|it| it.waiting),
    );
}

fn add_parked(registry: &mut Registry, parked: &[ParkedCount]) {
    let labels = |it: &ParkedCount| {
        let mut labels = labelled("status", it.status.as_str());
        labels.push(("task_type".into(), it.task_type.clone()));
        labels
    };
    let counts = parked.iter().map(|it| (labels(it), it.count));
    let help = "Tasks that wait for a person, by status and type";
    add(registry, "parked_tasks", help, counts);
    let ages = parked.iter().map(|it| (labels(it), it.oldest.as_secs()));
    let help = "Since the last change of the one of these that has changed least lately";
    add(registry, "oldest_parked_seconds", help, ages);
}

fn add_open_effects(registry: &mut Registry, sums: &OpenEffectSums) {
    let mut counts = BTreeMap::<Labels, f64>::new();
    let mut amounts = BTreeMap::<Labels, f64>::new();
    for it in &sums.sums {
        let mut labels = labelled("kind", it.kind.as_str());
        labels.push(("task_type".into(), it.task_type.clone()));
        labels.push(("service".into(), it.service.clone().unwrap_or_default()));
        for amount in &it.amounts {
            let mut labels = labels.clone();
            labels.push(("currency".into(), amount.currency.clone()));
            *amounts.entry(labels).or_default() += amount.sum.parse::<f64>().unwrap_or_default();
        }
        *counts.entry(labels).or_default() += number(it.effects);
    }
    let help = "What steps have done outside and nothing has taken back, of the newest parked tasks, by kind, type and service";
    add_numbers(registry, "open_effects", help, counts);
    let help = "Sum of the declared amounts of these";
    add_numbers(registry, "open_effects_amount", help, amounts);
}

fn add_status(registry: &mut Registry, status: &StatusView) {
    let workers = [
        ("alive", status.workers_alive),
        ("lost", status.workers_lost),
    ];
    let workers = workers.map(|(state, count)| (labelled("state", state), count));
    add(
        registry,
        "workers",
        "Processes that were seen lately, and those that were not and did not say that they stop",
        workers,
    );
    for (name, help, age) in [
        (
            "oldest_running_seconds",
            "Since the last change of the running task that has changed least lately",
            status.oldest_running_seconds,
        ),
        (
            "oldest_due_seconds",
            "Of the task that could be claimed for the longest time",
            status.oldest_due_seconds,
        ),
        (
            "oldest_unpublished_seconds",
            "Of the oldest event that is not published",
            status.oldest_unpublished_seconds,
        ),
    ] {
        // Nothing is as old as nothing: an alarm on an age must not go off, or vanish, because all
        // is done.
        one(registry, name, help, age.unwrap_or_default());
    }
}

fn by_role(workers: &[WorkerView], number: impl Fn(&WorkerView) -> u64) -> Vec<(Labels, u64)> {
    let alive = || {
        workers
            .iter()
            .filter(|worker| worker.state == WorkerState::Alive)
    };
    let roles: BTreeSet<&str> = alive().map(|worker| worker.role.as_str()).collect();
    let sum = |role: &str| {
        alive()
            .filter(|worker| worker.role == role)
            .map(&number)
            .sum()
    };
    roles
        .into_iter()
        .map(|role| (labelled("role", role), sum(role)))
        .collect()
}

fn one(registry: &mut Registry, name: &str, help: &str, count: u64) {
    let gauge = Number::default();
    gauge.set(number(count));
    registry.register(name, help, gauge);
}

fn add(
    registry: &mut Registry,
    name: &str,
    help: &str,
    numbers: impl IntoIterator<Item = (Labels, u64)>,
) {
    let numbers = numbers.into_iter();
    let numbers = numbers.map(|(labels, count)| (labels, number(count)));
    add_numbers(registry, name, help, numbers);
}

fn add_numbers(
    registry: &mut Registry,
    name: &str,
    help: &str,
    numbers: impl IntoIterator<Item = (Labels, f64)>,
) {
    let family = Family::<Labels, Number>::default();
    for (labels, number) in numbers {
        family.get_or_create(&labels).set(number);
    }
    registry.register(name, help, family);
}

#[expect(
    clippy::cast_precision_loss,
    reason = "the format has no other numbers"
)]
const fn number(count: u64) -> f64 {
    count as f64
}
