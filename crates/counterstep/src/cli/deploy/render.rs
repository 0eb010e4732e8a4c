//! The parts of files in `deploy/` that follow from the task types of a program. Each stands between two marks, and what a
//! person has changed around them stays. Must not read or write files.

use super::processes;
use counterstep_contracts::{Host, QueueName};
use counterstep_node::nats_rights::{self, User};
use counterstep_steps::Registry;

/// The files with such parts.
pub(in crate::cli) const RENDERED: [&str; 12] = [
    "compose.yaml",
    "kubernetes/api.yaml",
    "kubernetes/reconciler.yaml",
    "kubernetes/worker-scaling.yaml",
    "kubernetes/worker.yaml",
    "nats/accounts.conf",
    "postgres/roles.sql",
    "systemd/counterstep-api.service",
    "systemd/counterstep-migrate.service",
    "systemd/counterstep-reconciler.service",
    "systemd/counterstep-worker@.service",
    SHIPPED_WORKER,
];

/// Of the shipped types alone.
const SHIPPED_WORKER: &str = "kubernetes/worker-video.yaml";

/// What a part begins and ends with, behind the sign of a comment.
const BEGIN: &str = "rendered: ";
const END: &str = "end of rendered";

/// What the files have of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct Facts {
    /// Its name, which files and users of it have too.
    pub(in crate::cli) program: String,
    /// The queues of API processes.
    pub(in crate::cli) api: Vec<QueueName>,
    /// Those of workers, each followed by its lanes.
    pub(in crate::cli) workers: Vec<QueueName>,
    /// Tables of the program's own, and what is granted on each.
    pub(in crate::cli) tables: Vec<(String, String)>,
    /// Of subjects and streams.
    pub(in crate::cli) nats_prefix: Option<String>,
}

impl Facts {
    pub(in crate::cli) fn of(
        registry: &Registry,
        program: &str,
        nats_prefix: Option<String>,
    ) -> Self {
        let tables = registry.tables();
        Self {
            program: program.to_owned(),
            api: registry.lanes(Host::Api),
            workers: registry.lanes(Host::Worker),
            tables: tables
                .map(|(name, rights)| (name.to_owned(), rights.to_string()))
                .collect(),
            nats_prefix,
        }
    }
}

/// The text with its parts as this program has them.
///
/// # Errors
/// What is wrong with a mark.
pub(in crate::cli) fn render(text: &str, facts: &Facts) -> Result<String, String> {
    let mut made = String::new();
    let mut lines = text.lines();
    // Queues that a further object of the file scales are none of the first one's.
    let apart: Vec<&str> = text.lines().filter_map(queues_apart).flatten().collect();
    let mut parts = 0;
    while let Some(line) = lines.next() {
        made.push_str(line);
        made.push('\n');
        let Some(part) = mark(line).and_then(|mark| mark.strip_prefix(BEGIN)) else {
            continue;
        };
        parts += 1;
        let indent = &line[..line.len() - line.trim_start().len()];
        let mut old = Vec::new();
        let end = loop {
            let line = lines
                .next()
                .ok_or_else(|| format!("the part `{BEGIN}{part}` has no `{END}`"))?;
            if mark(line) == Some(END) {
                break line;
            }
            old.push(line);
        };
        for line in part_of(part, facts, &old, &apart)? {
            made.push_str(&format!("{indent}{line}\n"));
        }
        made.push_str(end);
        made.push('\n');
    }
    if parts == 0 {
        return Err(format!(
            "it has no part `{BEGIN}..`: take the one that `counterstep new` writes now, and your changes over"
        ));
    }
    Ok(made)
}

/// What a line of a comment says.
fn mark(line: &str) -> Option<&str> {
    let line = line.trim();
    line.strip_prefix("# ").or_else(|| line.strip_prefix("-- "))
}

const TRIGGERS: &str = "triggers of ";
const OTHERS: &str = "all other queues";
const QUEUES: &str = "queues of workers but ";

/// The queues that a part for triggers names.
fn queues_apart(line: &str) -> Option<impl Iterator<Item = &str>> {
    let named = mark(line)?.strip_prefix(BEGIN)?.strip_prefix(TRIGGERS)?;
    (named != OTHERS).then(|| named.split(", "))
}

fn part_of(part: &str, facts: &Facts, old: &[&str], apart: &[&str]) -> Result<Vec<String>, String> {
    if let Some(queues) = part.strip_prefix(TRIGGERS) {
        let named: Vec<&str> = queues.split(", ").collect();
        let is_here = |lane: &&QueueName| {
            let queue = lane.base().0;
            match queues {
                OTHERS => !apart.contains(&queue.as_str()),
                _ => named.contains(&queue.as_str()),
            }
        };
        return triggers(facts, facts.workers.iter().filter(is_here), old);
    }
    if let Some(apart) = part.strip_prefix(QUEUES) {
        return Ok(queues(facts, apart, old));
    }
    if let Some(lines) = processes::part(part, &facts.program) {
        return Ok(lines);
    }
    Ok(match part {
        "rights of the API" => user(User::Api, facts, &facts.api),
        "rights of workers" => user(User::Worker, facts, &facts.workers),
        "rights of the reconciler" => user(User::Reconciler, facts, &[]),
        "rights of people who look" => user(User::Operator, facts, &[]),
        "tables of the program" => facts
            .tables
            .iter()
            .map(|(table, rights)| format!("('{table}', '{rights}'),"))
            .collect(),
        _ => return Err(format!("unknown part `{BEGIN}{part}`")),
    })
}

/// The flag with the queues that no other worker serves. Comments of the old part stay: a chart has its marks there.
fn queues(facts: &Facts, apart: &str, old: &[&str]) -> Vec<String> {
    let apart: Vec<&str> = apart.split(", ").collect();
    let is_here = |lane: &&QueueName| lane.base() == **lane && !apart.contains(&lane.0.as_str());
    let served: Vec<_> = facts
        .workers
        .iter()
        .filter(is_here)
        .map(|it| it.0.as_str())
        .collect();
    let comments = old
        .iter()
        .map(|line| line.trim())
        .filter(|line| line.starts_with('#'));
    let mut lines = vec!["- --queues".to_owned()];
    lines.extend(comments.map(str::to_owned));
    lines.push(format!("- {}", served.join(",")));
    lines
}

fn user(user: User, facts: &Facts, queues: &[QueueName]) -> Vec<String> {
    let prefix = facts.nats_prefix.as_deref();
    let quoted = |texts: &[String]| {
        let quoted: Vec<_> = texts.iter().map(|text| format!("\"{text}\"")).collect();
        quoted.join(", ")
    };
    let mut lines = vec!["publish: [".to_owned()];
    let publish = nats_rights::publish(user, prefix, queues);
    lines.extend(publish.iter().map(|line| format!("  {}", quoted(line))));
    lines.push("]".to_owned());
    let subscribe = nats_rights::subscribe(user, prefix);
    lines.push(format!("subscribe: [{}]", quoted(&subscribe)));
    lines
}

/// One for each of the queues. Each is like the first one that is there: its address and its threshold are the operator's.
fn triggers<'a>(
    facts: &Facts,
    queues: impl Iterator<Item = &'a QueueName>,
    old: &[&str],
) -> Result<Vec<String>, String> {
    let indent = old
        .first()
        .map_or(0, |line| line.len() - line.trim_start().len());
    let old: Vec<&str> = old
        .iter()
        .map(|line| line.get(indent..).unwrap_or(""))
        .collect();
    let is_begin = |line: &&str| line.starts_with("- ");
    let mut first: Vec<&str> = old.iter().copied().take(1).filter(is_begin).collect();
    let rest = old
        .iter()
        .copied()
        .skip(1)
        .take_while(|line| !is_begin(line));
    first.extend(rest);
    let names_one = first
        .iter()
        .any(|line| line.trim_start().starts_with("consumer: "));
    let mut lines = Vec::new();
    for queue in queues {
        if !names_one {
            return Err(
                "a part for triggers has none to go by: write one with a `consumer:`".to_owned(),
            );
        }
        for line in &first {
            let indent = &line[..line.len() - line.trim_start().len()];
            lines.push(match line.trim_start().split_once(": ") {
                Some(("consumer", _)) => {
                    format!("{indent}consumer: {}", nats_rights::consumer(queue))
                }
                Some(("stream", _)) => {
                    let stream = nats_rights::stream(facts.nats_prefix.as_deref(), "work");
                    format!("{indent}stream: {stream}")
                }
                _ => (*line).to_owned(),
            });
        }
    }
    Ok(lines)
}
