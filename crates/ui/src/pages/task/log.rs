//! What the steps of a task have logged: the last lines, of which the interface keeps a bounded number.

use super::task_data::Found;
use crate::markup::{chip, number, table};
use crate::time_text::{clock, exact};
use counterstep_contracts::log::{LogLevel, LogLine, LogPage, LogPart};
use maud::{Markup, html};

pub(super) fn of(found: &Found) -> Markup {
    let Some(log) = found.log.as_ref().filter(|log| is_to_be_shown(log)) else {
        return html! {};
    };
    let rows: Vec<Markup> = log.lines.iter().map(row).collect();
    html! {
        section.log aria-labelledby="log" {
            h2 #log { "Log" }
            details open {
                summary { (rows.len()) (if rows.len() == 1 { " line" } else { " lines" }) }
                @if log.dropped > 0 { p.quiet { (number(log.dropped)) " lines before these are gone: a log is bounded." } }
                @if log.unreadable > 0 { p.quiet { (number(log.unreadable)) " lines cannot be read: the keys of their tenant are not here." } }
                @if !rows.is_empty() { (table("Lines of the log", &["Time, UTC", "Step", "Level", "What"], &rows)) }
            }
        }
    }
}

fn is_to_be_shown(log: &LogPage) -> bool {
    !log.lines.is_empty() || log.dropped > 0 || log.unreadable > 0
}

fn row(line: &LogLine) -> Markup {
    let part = (line.part != LogPart::Run).then_some(line.part);
    html! {
        tr {
            td { time datetime=(line.at) title=(exact(&line.at)) { (clock(&line.at)) } }
            td {
                (line.step)
                @if let Some(part) = part { ", " (part.as_str()) }
                span.quiet { " try " (line.attempt) }
            }
            td { (level(line.level)) }
            td.details { (line.message) }
        }
    }
}

fn level(of: LogLevel) -> Markup {
    match of {
        LogLevel::Error => chip("cross", "bad", "error"),
        LogLevel::Warn => chip("question", "doubt", "warn"),
        LogLevel::Info | LogLevel::Debug => html! { (of.as_str()) },
    }
}
