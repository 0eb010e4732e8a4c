//! `counterstep describe`: the declared task types, from the declarations themselves.

use super::output::print;
use counterstep_contracts::bytes::format_bytes;
use counterstep_contracts::declaration::{NamedBreaker, NamedPolicy};
use counterstep_contracts::retry::format_duration;
use counterstep_contracts::{
    Backoff, Beyond, BreakerPolicy, Direction, Limit, LimitScope, Priority, RetryPolicy, StepDecl,
    TaskDecl, UndoDecl, WaitDecl, WhenCutOff,
};
use counterstep_node::Exit;
use counterstep_node::settings::{SettingsFor, commands};
use counterstep_steps::Registry;
use counterstep_steps::policies::Policies;
use std::fmt::Write as _;

/// Flags of `describe`.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct DescribeArgs {
    #[command(flatten)]
    settings: SettingsFor<{ commands::DESCRIBE }>,
    /// Only this task type, by its name or its route [default: all]
    task_type: Option<String>,
    /// The form of the output
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people
    Text,
    /// The declarations as they are
    Json,
    /// The diagrams alone
    Mermaid,
}

pub(super) fn main(registry: &Registry, args: &DescribeArgs) -> Result<(), Exit> {
    let set = &args.settings.read()?.policies_in_effect(registry)?;
    let wanted = |decl: &TaskDecl| {
        args.task_type
            .as_ref()
            .is_none_or(|name| *name == decl.name || *name == decl.route())
    };
    let decls: Vec<_> = registry
        .iter()
        .map(|task_type| task_type.decl)
        .filter(|decl| wanted(decl))
        .collect();
    if decls.is_empty() {
        let known: Vec<_> = registry
            .iter()
            .map(|task_type| task_type.decl.name)
            .collect();
        return Err(Exit::failed(format_args!(
            "there is no such task type; known are {}",
            known.join(", ")
        )));
    }
    let text = match args.format {
        Format::Json => {
            let shown: Result<Vec<_>, _> = decls.iter().map(|decl| set.shown(decl)).collect();
            serde_json::to_string_pretty(&shown.map_err(Exit::failed)?).map_err(Exit::failed)?
                + "\n"
        }
        Format::Mermaid => decls.iter().map(|decl| mermaid(decl)).collect(),
        Format::Text => decls
            .iter()
            .map(|decl| text(decl, set) + "\n" + &mermaid(decl) + "\n")
            .collect(),
    };
    print(&text)
}

fn text(decl: &TaskDecl, set: &Policies) -> String {
    let time = |limit: Option<std::time::Duration>| {
        limit.map_or_else(|| "default".to_owned(), format_duration)
    };
    let mut out = String::new();
    let _ = writeln!(out, "{} version {}", decl.name, decl.version);
    let _ = writeln!(out, "  route       POST /api/tasks/{}", decl.route());
    let _ = writeln!(out, "  queue       {}", decl.queue);
    let _ = writeln!(out, "  request     {}", decl.request);
    let _ = writeln!(out, "  response    {}", decl.response);
    let _ = writeln!(
        out,
        "  timeout     {}",
        decl.timeout
            .map_or_else(|| "none".to_owned(), format_duration)
    );
    let _ = writeln!(out, "  lease       {}", time(decl.lease));
    let _ = writeln!(
        out,
        "  recoveries  at most {} consecutive",
        decl.max_recoveries
    );
    let _ = writeln!(out, "  host lost   {}", decl.on_lost);
    let _ = writeln!(
        out,
        "  cancel      {}",
        if decl.cancellable {
            "by its client"
        } else {
            "not possible"
        }
    );
    let _ = writeln!(out, "  undo fails  {}", decl.on_undo_failure);
    if let Some(policy) = set.auto_disable_of(decl) {
        let (within, failures) = (format_duration(policy.within), policy.after_failures);
        let ends = policy.cooldown.map_or_else(
            || "until an operator enables it".to_owned(),
            |cooldown| format!("for {}", format_duration(cooldown)),
        );
        let _ = writeln!(
            out,
            "  disabled    after {failures} consecutive failures within {within}, {ends}"
        );
    }
    if !decl.labels.is_empty() {
        let _ = writeln!(out, "  labels      {}", decl.labels.join(", "));
    }
    if decl.flow.priority != Priority::Normal {
        let _ = writeln!(out, "  priority    {}", decl.flow.priority);
    }
    if let Some(concurrency) = decl.flow.concurrency {
        let each = decl
            .flow
            .key
            .map_or_else(String::new, |key| format!(" for each `{key}` of a tenant"));
        let beyond = match concurrency.beyond {
            Beyond::Wait => "further ones wait",
            Beyond::Replace => "a newer one replaces the older",
            Beyond::Refuse => "further ones are refused",
        };
        let _ = writeln!(out, "  at a time   {}{each}; {beyond}", concurrency.at_once);
        if let Some(debounce) = concurrency.debounce {
            let time = format_duration(debounce);
            let _ = writeln!(
                out,
                "  debounce    {time}: the last of those submitted within it starts"
            );
        }
    }
    let _ = writeln!(out, "  definition  {}", decl.definition_hash());
    for step in decl.steps {
        step_text(&mut out, step, set);
    }
    out
}

fn step_text(out: &mut String, step: &StepDecl, set: &Policies) {
    let reads: Vec<_> = step
        .inputs
        .iter()
        .map(|input| format!("{} ({})", input.source, input.ty))
        .collect();
    let _ = writeln!(
        out,
        "\n  {}. {} on {} ({})",
        step.no, step.name, step.host, step.kind
    );
    let _ = writeln!(
        out,
        "     reads     {}",
        if reads.is_empty() {
            "nothing".to_owned()
        } else {
            reads.join(", ")
        }
    );
    let _ = writeln!(out, "     gives     {}", step.output);
    if step.waits.is_none() || step.fallback.is_some() {
        let _ = writeln!(out, "     retry     {}", retry(&step.retry, set));
    }
    if let Some(declared) = step.breaker {
        let _ = writeln!(
            out,
            "     breaker   {}",
            breaker(&declared, set.breaker_of(step))
        );
    }
    if let Some(declared) = step.limit {
        let _ = writeln!(out, "     limit     {}", limit(&declared));
    }
    match step.waits {
        None => {}
        Some(WaitDecl::Timer) => out.push_str("     waits     for its time, without a slot\n"),
        Some(WaitDecl::Signal { optional }) => {
            let or = if optional { "gives none" } else { "fails" };
            let _ = writeln!(
                out,
                "     waits     for POST /api/tasks/{{id}}/signals/{}; {or} at its deadline",
                step.name
            );
        }
        Some(WaitDecl::Tasks { of }) => {
            let of = of.unwrap_or("several types");
            let _ = writeln!(
                out,
                "     waits     for tasks of {of}, which it submits and which are undone with it"
            );
        }
    }
    if let Some(fallback) = step.fallback {
        let _ = writeln!(out, "     fallback  {}", fallback.name);
    }
    let _ = writeln!(out, "     gives up  {}", step.on_exhausted);
    if let Some(limit) = set.attempt_timeout(step, Direction::Forward) {
        let _ = writeln!(out, "     timeout   {} an attempt", format_duration(limit));
    }
    if let Some(limit) = step.heartbeat {
        let limit = format_duration(limit);
        let _ = writeln!(out, "     heartbeat at least one in {limit}");
    }
    if let Some(most) = step.scratch {
        let most = format_bytes(most);
        let _ = writeln!(out, "     scratch   at most {most} on a host");
    }
    if let Some(isolate) = step.isolate {
        let memory = isolate.memory.map(format_bytes);
        let memory = memory.map_or_else(String::new, |most| {
            format!(", with at most {most} of memory")
        });
        let _ = writeln!(out, "     isolated  in a process of its own{memory}");
    }
    if let Some(group) = step.group {
        let _ = writeln!(out, "     group     {group}");
    }
    if step.heavy {
        let _ = writeln!(out, "     heavy     few side by side in a process");
    }
    if step.when_cut_off == WhenCutOff::Finish {
        let _ = writeln!(
            out,
            "     cut off   goes on to its time limit while the database is away"
        );
    }
    if let Some(when) = step.when {
        let _ = writeln!(out, "     when      {when}");
    }
    let undo = match step.undo {
        UndoDecl::Function { name } => format!("{name}; retried {}", retry(&step.undo_retry, set)),
        UndoDecl::BuiltIn if step.has_children() => {
            "stops the tasks that it has submitted, and undoes those that have completed".to_owned()
        }
        UndoDecl::BuiltIn => format!(
            "deletes what it stored; retried {}",
            retry(&step.undo_retry, set)
        ),
        UndoDecl::Waived { reason } => format!("waived: {reason}"),
        UndoDecl::Pure => "none needed: pure".to_owned(),
    };
    let _ = writeln!(out, "     undo      {undo}");
    if let Some(probe) = step.probe {
        let retried = step.probe_retry.as_ref().map(|policy| retry(policy, set));
        let _ = writeln!(
            out,
            "     in doubt  {probe} is asked first how far it came; retried {}",
            retried.unwrap_or_default()
        );
        let _ = writeln!(out, "     unknown   {}", step.on_probe_failure);
    }
}

/// A policy by name and value, and what the settings make of it where that differs.
fn retry(declared: &NamedPolicy, set: &Policies) -> String {
    let effective = set.retry(declared);
    let mut text = format!("{}: {}", declared.name, policy(&declared.policy));
    if effective != declared.policy {
        let _ = write!(text, "\n               in effect: {}", policy(&effective));
    }
    text
}

fn limit(declared: &Limit) -> String {
    let at_once = declared.at_once.map(|most| format!("{most} at once"));
    let rate = declared.rate.map(|rate| rate.to_string());
    let values: Vec<String> = at_once.into_iter().chain(rate).collect();
    let each = match declared.scope {
        LimitScope::All => String::new(),
        LimitScope::Tenant => ", for each tenant".to_owned(),
        LimitScope::Label(label) => format!(", for each value of the label `{label}`"),
    };
    format!("`{}`: {}{each}", declared.name, values.join(", "))
}

fn breaker(declared: &NamedBreaker, effective: Option<BreakerPolicy>) -> String {
    let values = |policy: &BreakerPolicy| {
        format!(
            "opens for {} after {} failures within {}",
            format_duration(policy.open_for),
            policy.after_failures,
            format_duration(policy.within)
        )
    };
    let of = declared
        .policy
        .name
        .map_or_else(|| "this step".to_owned(), |name| format!("`{name}`"));
    let mut text = format!("{} of {of}: {}", declared.name, values(&declared.policy));
    if let Some(effective) = effective.filter(|effective| *effective != declared.policy) {
        let _ = write!(text, "\n               in effect: {}", values(&effective));
    }
    text
}

fn policy(policy: &RetryPolicy) -> String {
    let limit = policy
        .attempt_timeout
        .map(|limit| format!(", {} an attempt", format_duration(limit)));
    let limit = limit.unwrap_or_default();
    if policy.max_retries == 0 {
        return format!("one try{limit}");
    }
    let shape = match policy.backoff {
        Backoff::Constant => "constant",
        Backoff::Linear => "linear",
        Backoff::Exponential => "exponential",
    };
    let retries = if policy.max_retries == 1 {
        "retry"
    } else {
        "retries"
    };
    format!(
        "{} {retries}, {shape} from {} up to {}{}{limit}",
        policy.max_retries,
        format_duration(policy.base),
        format_duration(policy.cap),
        if policy.jitter { ", with jitter" } else { "" }
    )
}

/// The steps as a Mermaid flowchart: forward as solid arrows, the undo as dotted ones back.
fn mermaid(decl: &TaskDecl) -> String {
    let mut out = format!("```mermaid\nflowchart TD\n  start([{}])\n", decl.request);
    for step in decl.steps {
        let (open, close) = if step.when.is_some() {
            ("{{", "}}")
        } else {
            ("[", "]")
        };
        let _ = writeln!(
            out,
            "  {}{open}\"{}. {}<br/>{}\"{close}",
            step.name, step.no, step.name, step.host
        );
    }
    let _ = writeln!(out, "  done([{}])", decl.response);
    let mut before = vec!["start"];
    let mut at = 0;
    while at < decl.steps.len() {
        let group = decl.steps[at].group;
        let size = decl.steps[at..]
            .iter()
            .take_while(|step| group.is_some() && step.group == group)
            .count()
            .max(1);
        let stage: Vec<_> = decl.steps[at..at + size]
            .iter()
            .map(|step| step.name)
            .collect();
        for from in &before {
            for to in &stage {
                let _ = writeln!(out, "  {from} --> {to}");
            }
        }
        before = stage;
        at += size;
    }
    for from in before {
        let _ = writeln!(out, "  {from} --> done");
    }
    let undone: Vec<_> = decl
        .steps
        .iter()
        .filter(|step| step.undo.has_effects())
        .map(|step| step.name)
        .collect();
    for pair in undone.windows(2) {
        let _ = writeln!(out, "  {} -. undo .-> {}", pair[1], pair[0]);
    }
    out.push_str("```\n");
    out
}
