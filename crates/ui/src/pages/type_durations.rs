//! How long the tasks of a type and their steps took, and how tasks ended or were parked: a chart and the same as a table, of a range that stands in
//! the address. Must not hold what it shows.

use crate::hours::{Hours, Measured, draw};
use crate::markup::{command, number, stacked, state, task_link, teach, way};
use crate::page_request::PageRequest;
use crate::query::{Address, Fields};
use crate::time_text::{ago, duration, exact, hour, micros, now, rfc3339};
use counterstep_contracts::access::Role;
use counterstep_contracts::declaration::kebab_case;
use counterstep_contracts::durations::{HourDurations, Percentiles, StepDurations, TypeDurations};
use counterstep_contracts::groups::{DeadLetterGroup, DeadLetterGroups};
use maud::{Markup, html};

/// The ranges that may be chosen: as the address has them, in hours.
const RANGES: [(&str, u32); 3] = [("24h", 24), ("7d", 7 * 24), ("30d", 30 * 24)];

/// Maximum number of causes that are shown.
const CAUSES: usize = 10;

/// An hour in microseconds.
const HOUR: i64 = 3_600_000_000;

/// What the address asks for.
struct Asked {
    range: &'static str,
    hours: u32,
    /// A step; none: the tasks.
    step: Option<String>,
    /// Of tasks with this label, `name=value`; none: of all.
    label: Option<String>,
}

impl Asked {
    fn of(visit: &PageRequest) -> Self {
        let query = Fields::of(visit.request.query_string());
        let wanted = query.get("range").unwrap_or_default();
        let known = RANGES.iter().find(|(range, _)| *range == wanted);
        let (range, hours) = *known.unwrap_or(&RANGES[0]);
        Self {
            range,
            hours,
            step: query.get("step").map(str::to_owned),
            label: query
                .get("label")
                .filter(|it| !it.is_empty())
                .map(str::to_owned),
        }
    }

    fn address(&self, visit: &PageRequest, range: &str, step: Option<&str>) -> String {
        let address = Address::new(visit.request.path().to_owned());
        let address = address.with("range", range).with_some("step", step);
        address.with_some("label", self.label.as_deref()).text() + "#durations"
    }

    /// The call that has it.
    fn call(&self, name: &str) -> String {
        let path = format!("/api/task-types/{}/durations", kebab_case(name));
        let call = Address::new(path).with("since", rfc3339(first_of(self) * HOUR));
        call.with_some("label", self.label.as_deref()).text()
    }
}

/// What the part of the page shows of a type; what does not answer is left out.
pub(super) async fn part(visit: &PageRequest, name: &str) -> Markup {
    let mut asked = Asked::of(visit);
    let since = rfc3339(first_of(&asked) * HOUR);
    let of_failed = Address::new("/api/dead-letters/groups".to_owned());
    let of_failed = of_failed.with("type", name).with("status", "failed");
    let of_failed = of_failed.with("since", &since).text();
    let (found, failed) = futures::join!(
        of_type(visit, &mut asked, name),
        visit.find::<DeadLetterGroups>(&of_failed)
    );
    let Some((found, refused)) = found else {
        return html! { p.quiet { "How long its tasks took is not known now." } };
    };
    let is_known = |step: &String| found.steps.iter().any(|it| it.step == *step);
    asked.step = asked.step.filter(is_known);
    html! {
        section aria-labelledby="durations" {
            div.head {
                h2 #durations { "Durations" }
                nav.pager aria-label="Range" {
                    @for (range, _) in RANGES {
                        a.button href=(asked.address(visit, range, asked.step.as_deref())) aria-current=[(range == asked.range).then_some("true")] { (range) } " "
                    }
                }
            }
            (labels(visit, &asked, &found))
            @if let Some(label) = &refused { p.quiet { "Tasks are not counted by " code { (label) } ": enter one of the labels above with a value. These are all tasks." } }
            (ended(&found))
            (chart(&asked, &found))
            (table_of_steps(visit, &asked, name, &found))
            (table_of_hours(&asked, &found))
        }
        @if let Some(failed) = &failed { (causes(visit, name, failed)) }
    }
}

/// What is asked for; and the label, if that is none by which tasks are counted: then of all tasks.
async fn of_type(
    visit: &PageRequest,
    asked: &mut Asked,
    name: &str,
) -> Option<(TypeDurations, Option<String>)> {
    match visit.get(&asked.call(name)).await {
        Ok(found) => return Some((found, None)),
        Err(failed) if failed.problem().is_some_and(|it| it.status == 422) => {}
        Err(_) => return None,
    }
    let refused = asked.label.take()?;
    let found = visit.find(&asked.call(name)).await?;
    Some((found, Some(refused)))
}

/// A box for a label of the tasks that are shown, where tasks are counted by labels.
fn labels(visit: &PageRequest, asked: &Asked, found: &TypeDurations) -> Markup {
    let chosen = asked.label.as_deref();
    let name = chosen
        .and_then(|it| it.split_once('='))
        .map(|(name, _)| name);
    let values = name.into_iter().flat_map(|name| {
        let values = found.values.iter();
        values.map(move |value| format!("{name}={value}"))
    });
    let names = found.labels.iter().map(|name| format!("{name}="));
    let all = Asked {
        label: None,
        step: None,
        ..*asked
    };
    html! {
        @if !found.labels.is_empty() {
            form.filters method="get" action={ (visit.request.path()) "#durations" } {
                input type="hidden" name="range" value=(asked.range);
                div.field.wide {
                    label for="label" { "Of tasks with a label " span.quiet { (found.labels.join(", ")) } }
                    div.search {
                        input #label name="label" value=[chosen] list="labels" placeholder={ (found.labels[0]) "=" }
                            autocomplete="off" spellcheck="false";
                        button type="submit" { "Show" }
                        @if chosen.is_some() { a.button href=(all.address(visit, asked.range, None)) { "All tasks" } }
                    }
                    datalist #labels { @for it in values.chain(names) { option value=(it) {} } }
                }
            }
        }
    }
}

/// Why tasks of a type failed that were submitted in the range.
fn causes(visit: &PageRequest, name: &str, found: &DeadLetterGroups) -> Markup {
    let row = |it: &DeadLetterGroup| {
        html! {
            tr {
                td.what { (it.cause) @if !it.text.is_empty() { br; span.message { (it.text) } } }
                td data-head="Tasks" { (number(it.count)) }
                td data-head="Last" { (ago(&it.last_at)) }
                td data-head="One of them" { (task_link(&visit.shell.base, it.example)) }
            }
        }
    };
    let rows: Vec<_> = found.groups.iter().take(CAUSES).map(row).collect();
    let heads = ["Cause", "Tasks", "Last", "One of them"];
    html! {
        @if !rows.is_empty() {
            section aria-labelledby="failed" {
                h2 #failed { "Why tasks failed that were submitted in this time" }
                (stacked(&format!("Causes of failed tasks of {name}"), &heads, &rows, ""))
                @if !found.complete { p.quiet { "Older tasks were not looked at." } }
            }
        }
    }
}

/// The number of the first hour that is shown, since 1970.
fn first_of(asked: &Asked) -> i64 {
    now().div_euclid(HOUR) - i64::from(asked.hours) + 1
}

fn ended(found: &TypeDurations) -> Markup {
    html! {
        @if found.ended.is_empty() { p.quiet { "No task of it has ended or was parked in this time." } }
        @else {
            p { "Ended or parked: " @for (status, count) in &found.ended { (state(*status)) " " (number(*count)) " " } }
        }
        @match &found.counted_until {
            Some(until) => p.quiet { "The last task that the reconciler has counted ended " (ago(until)) "." },
            None => p.quiet { "No task that has ended is counted yet: a reconciler counts them." },
        }
    }
}

/// What was measured in an hour of what is shown.
fn of_hour(asked: &Asked, hour: &HourDurations) -> Option<Percentiles> {
    match &asked.step {
        None => hour.tasks,
        Some(step) => {
            let found = hour.steps.iter().find(|it| it.step == *step);
            found.map(|it| it.took)
        }
    }
}

fn chart(asked: &Asked, found: &TypeDurations) -> Markup {
    let first = first_of(asked);
    let last = first + i64::from(asked.hours) - 1;
    let measured = found.hours.iter().filter_map(|hour| {
        let took = of_hour(asked, hour)?;
        let place = micros(&hour.hour).div_euclid(HOUR) - first;
        Some(Measured {
            hour: u32::try_from(place).ok().filter(|it| *it < asked.hours)?,
            millis: vec![took.p50_ms, took.p95_ms, took.p99_ms],
        })
    });
    let measured: Vec<_> = measured.collect();
    let what = match (&asked.step, &asked.label) {
        (Some(step), _) => format!("attempts at {step}"),
        (None, Some(label)) => format!("tasks with {label} that completed"),
        (None, None) => "tasks that completed".to_owned(),
    };
    let words = format!(
        "How long {what} took by the hour, as three lines: half, 95 of 100 and 99 of 100 took no longer. The table By the hour has the same."
    );
    let text = |number: i64| hour(number * HOUR);
    html! {
        @if !measured.is_empty() {
            h3 { "How long " (what) " took" }
            (draw(&Hours {
                words: &words,
                lines: &["p50", "p95", "p99"],
                from: &text(first),
                to: &text(last),
                hours: asked.hours,
                measured: &measured,
            }))
        }
    }
}

fn millis(count: u64) -> String {
    duration(i64::try_from(count.saturating_mul(1_000)).unwrap_or(i64::MAX))
}

fn cells(took: &Percentiles) -> Markup {
    html! {
        td data-head="Measured" { (number(took.count)) }
        td data-head="p50" { (millis(took.p50_ms)) }
        td data-head="p95" { (millis(took.p95_ms)) }
        td data-head="p99" { (millis(took.p99_ms)) }
    }
}

fn table_of_steps(visit: &PageRequest, asked: &Asked, name: &str, found: &TypeDurations) -> Markup {
    let link = |step: Option<&str>, text: &str| {
        let is_shown = asked.step.as_deref() == step;
        html! { a href=(asked.address(visit, asked.range, step)) aria-current=[is_shown.then_some("true")] { (text) } }
    };
    let of_step = |it: &StepDurations| {
        html! {
            tr {
                td.what { (link(Some(&it.step), &it.step)) }
                (cells(&it.took))
                td data-head="Longest" { (millis(it.max_ms)) " " (task_link(&visit.shell.base, it.slowest)) }
            }
        }
    };
    let whole = found.tasks.iter().map(|took| {
        html! { tr { td.what { (link(None, &format!("{name}, whole tasks"))) } (cells(took)) td data-head="Longest" { "–" } } }
    });
    let rows: Vec<_> = whole.chain(found.steps.iter().map(of_step)).collect();
    let heads = ["Of", "Measured", "p50", "p95", "p99", "Longest"];
    html! {
        (stacked("Durations by step", &heads, &rows, none(visit, name)))
        @if !found.steps.is_empty() { p.quiet { "Choose a step to see its hours. Of many tasks, the steps of some are measured." } }
    }
}

fn none(visit: &PageRequest, name: &str) -> Markup {
    let route = kebab_case(name);
    let first = html! {
        (way(&visit.shell, Role::Submit, &format!("/submit/{route}"), "Submit a task of it"))
        (command(&format!("types durations {route}")))
    };
    teach(
        "Nothing was measured in this time. The reconciler counts how long tasks took, and attempts at their steps, by the hour in which \
         they ended.",
        &first,
    )
}

fn table_of_hours(asked: &Asked, found: &TypeDurations) -> Markup {
    let row = |hour: &HourDurations| {
        let took = of_hour(asked, hour);
        html! {
            tr {
                td.what { time datetime=(hour.hour) { (exact(&hour.hour)) } }
                td data-head="Ended or parked" { @for (status, count) in &hour.ended { (state(*status)) " " (number(*count)) " " } }
                @match &took {
                    Some(took) => { (cells(took)) },
                    None => { td data-head="Measured" { "0" } td data-head="p50" { "–" } td data-head="p95" { "–" } td data-head="p99" { "–" } },
                }
            }
        }
    };
    let rows: Vec<_> = found.hours.iter().rev().map(row).collect();
    let heads = ["Hour", "Ended or parked", "Measured", "p50", "p95", "p99"];
    html! {
        @if !rows.is_empty() {
            details { summary { "By the hour" } (stacked("Durations by the hour", &heads, &rows, "")) }
        }
    }
}
