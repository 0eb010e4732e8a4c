//! A declared task type as data: what `#[distributed_task]` writes down and `counterstep describe`
//! prints.

use crate::breaker::BreakerPolicy;
use crate::disable::AutoDisable;
use crate::flow::{FlowDecl, Priority};
use crate::ids::{QueueName, StepNo};
use crate::limit::Limit;
use crate::retry::RetryPolicy;
use crate::state::text_enum;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt;
use std::time::Duration;

text_enum!(
    /// Where a step runs.
    Host {
        /// In an API process.
        Api = "api",
        /// In a worker process.
        Worker = "worker",
    }
);

text_enum!(
    /// What happens to a task when a step has used up its retries, or failed permanently.
    OnExhausted {
        /// Undo everything that started, in reverse.
        Compensate = "compensate",
        /// End as Failed and leave what was done; the task says so with `residue`.
        Fail = "fail",
        /// Park it for a person.
        DeadLetter = "dead_letter",
    }
);

text_enum!(
    /// What happens when an undo has used up its retries.
    OnUndoFailure {
        /// Park the task at once.
        Stop = "stop",
        /// Undo the other steps first, then park it.
        Continue = "continue",
    }
);

text_enum!(
    /// What happens when a probe has used up its retries: it is unknown whether the step happened.
    OnProbeFailure {
        /// Park the task for a person.
        Park = "park",
        /// Go on as without a probe: the step runs again, and its undo gets no output.
        RunAgain = "run_again",
    }
);

text_enum!(
    /// What happens to a task when the host that ran it forward is lost.
    OnLost {
        /// Another host runs the step in doubt again, up to `max_recoveries` consecutive times.
        Requeue = "requeue",
        /// It is undone at once: its steps must not run twice unasked.
        Fail = "fail",
    }
);

text_enum!(
    /// What happens to a running step of a worker that cannot reach the database.
    WhenCutOff {
        /// It goes on until the lease of its task is over, and is stopped then.
        Stop = "stop",
        /// It goes on to its own time limit, though another host may run it meanwhile: what it does
        /// twice is done once.
        Finish = "finish",
    }
);

text_enum!(
    /// Who wrote the step's code.
    StepKind {
        /// The declaration's author, as an async function.
        Custom = "custom",
        /// The engine; the declaration says what, not how.
        BuiltIn = "built_in",
    }
);

/// How a step is undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum UndoDecl {
    /// The named function of the declaration.
    Function {
        /// Name of the function.
        name: &'static str,
    },
    /// The built-in step's own undo.
    BuiltIn,
    /// There is nothing to undo, and the declaration says why.
    Waived {
        /// The declaration's words.
        reason: &'static str,
    },
    /// The step has no effects at all.
    Pure,
}

impl UndoDecl {
    /// Whether a started step must be undone: neither pure nor waived.
    #[must_use]
    pub const fn has_effects(&self) -> bool {
        matches!(self, Self::Function { .. } | Self::BuiltIn)
    }
}

/// A retry policy and the name under which the declaration refers to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(transform = with_effective)]
pub struct NamedPolicy {
    /// The constant's path as written, or `built-in`, `none`, `undo` for the defaults.
    pub name: &'static str,
    /// The retry policy.
    pub policy: RetryPolicy,
}

/// A breaker and the name under which the declaration refers to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(transform = with_effective)]
pub struct NamedBreaker {
    /// The constant's path as written.
    pub name: &'static str,
    /// The policy of the breaker.
    pub policy: BreakerPolicy,
}

/// A policy that the settings change is shown with what holds in `effective`.
fn with_effective(schema: &mut Schema) {
    let Some(Value::Object(properties)) = schema.get_mut("properties") else {
        return;
    };
    let policy = properties.get("policy").cloned().unwrap_or_default();
    let about = "What holds instead, where the settings change it";
    properties.insert(
        "effective".to_owned(),
        json!({ "allOf": [policy], "description": about }),
    );
}

/// What a task type is disabled by, as it is shown.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it has the schema of what the policies show")]
enum ShownAutoDisable {
    /// As the task type declares it.
    Declared(Option<AutoDisable>),
    /// The settings change it.
    Changed {
        /// As the task type declares it.
        declared: Option<AutoDisable>,
        /// What holds instead.
        effective: Option<AutoDisable>,
    },
}

/// One input of a step: a parameter of its function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct InputDecl {
    /// The parameter's name.
    pub name: &'static str,
    /// `request`, or the name of the step whose output it reads.
    pub source: &'static str,
    /// Its type as written.
    pub ty: &'static str,
}

/// What a step waits for. Such a step runs no code of its own: it has no attempts, and while it
/// waits its task holds neither a slot nor a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "for")]
pub enum WaitDecl {
    /// A point of time.
    Timer,
    /// A signal from outside, named like the step.
    Signal {
        /// Whether the step completes without one once its deadline has passed; it fails then
        /// otherwise.
        optional: bool,
    },
    /// Tasks that it submits: its children.
    Tasks {
        /// Declared name of their type; `None`: of several types.
        of: Option<&'static str>,
    },
}

impl WaitDecl {
    /// Whether it waits for tasks that it submits.
    #[must_use]
    pub const fn has_children(self) -> bool {
        matches!(self, Self::Tasks { .. })
    }
}

/// What runs in place of a step that gave up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FallbackDecl {
    /// The function's name.
    pub name: &'static str,
    /// What it reads.
    pub inputs: &'static [InputDecl],
}

/// A step whose code runs in a process of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct IsolateDecl {
    /// Bytes of memory that the process may take; `None`: as many as there are.
    #[serde(serialize_with = "crate::bytes::as_optional_text")]
    #[schemars(with = "Option<String>")]
    pub memory: Option<u64>,
}

/// One step of a task type.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct StepDecl {
    /// Its place in the order; unique within the type.
    pub no: StepNo,
    /// Its function's name; unique within the type.
    pub name: &'static str,
    /// Where it runs.
    pub host: Host,
    /// Who wrote its code.
    pub kind: StepKind,
    /// What it reads.
    pub inputs: &'static [InputDecl],
    /// Its output's type as written.
    pub output: &'static str,
    /// How it is retried.
    pub retry: NamedPolicy,
    /// What keeps its attempts from something that is down. An undo never asks it.
    pub breaker: Option<NamedBreaker>,
    /// What limits its attempts over all processes. An undo never asks it.
    pub limit: Option<Limit>,
    /// How it is undone.
    pub undo: UndoDecl,
    /// How its undo is retried.
    pub undo_retry: NamedPolicy,
    /// What its giving up leads to.
    pub on_exhausted: OnExhausted,
    /// Limit of one attempt; `None`: that of the policy, else that of the settings.
    #[serde(serialize_with = "crate::retry::as_optional_text")]
    #[schemars(with = "Option<String>")]
    pub timeout: Option<Duration>,
    /// An attempt has to say that it is alive within each such time, or it has timed out; `None`: it need not.
    #[serde(serialize_with = "crate::retry::as_optional_text")]
    #[schemars(with = "Option<String>")]
    pub heartbeat: Option<Duration>,
    /// Bytes that its scratch files may take on a host; `None`: as many as there are.
    #[serde(serialize_with = "crate::bytes::as_optional_text")]
    #[schemars(with = "Option<String>")]
    pub scratch: Option<u64>,
    /// Whether its code, its undo's and its probe's, runs in processes of their own; `None`: in the process
    /// that runs the task.
    pub isolate: Option<IsolateDecl>,
    /// Steps of one group run side by side; they share host and neighbourhood.
    pub group: Option<&'static str>,
    /// Whether it takes a processor or much memory for itself: few of these run side by side in a
    /// process.
    pub heavy: bool,
    /// How long it goes on where the database cannot be reached.
    pub when_cut_off: WhenCutOff,
    /// The condition's function name; the step is skipped where it says no.
    pub when: Option<&'static str>,
    /// What its condition reads. Not shown: it is for the planner alone.
    #[serde(skip)]
    #[schemars(skip)]
    pub when_inputs: &'static [InputDecl],
    /// What it waits for; `None`: it runs code.
    pub waits: Option<WaitDecl>,
    /// What runs when it has given up.
    pub fallback: Option<FallbackDecl>,
    /// The probe's function name: it finds out how far an attempt in doubt came.
    pub probe: Option<&'static str>,
    /// How its probe is retried; `None`: it has none.
    pub probe_retry: Option<NamedPolicy>,
    /// What its probe's giving up leads to.
    pub on_probe_failure: OnProbeFailure,
}

impl StepDecl {
    /// Whether it submits tasks and waits for them.
    #[must_use]
    pub fn has_children(&self) -> bool {
        self.waits.is_some_and(WaitDecl::has_children)
    }

    /// Whether the step, or its fallback, reads this source.
    #[must_use]
    pub fn reads(&self, source: &str) -> bool {
        let fallback = self.fallback.map_or(&[][..], |fallback| fallback.inputs);
        self.inputs
            .iter()
            .chain(fallback)
            .any(|input| input.source == source)
    }

    /// Whether its condition reads this source.
    #[must_use]
    pub fn condition_reads(&self, source: &str) -> bool {
        self.when_inputs.iter().any(|input| input.source == source)
    }
}

/// A task type.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct TaskDecl {
    /// Its name as declared, `CreateZipFromFiles`.
    pub name: &'static str,
    /// Grows when running tasks could not go on under the new declaration.
    pub version: u32,
    /// The queue its worker steps are dispatched on; the API's is `{queue}.api`.
    pub queue: &'static str,
    /// Deadline since submit, waits included, undo not.
    #[serde(serialize_with = "crate::retry::as_optional_text")]
    #[schemars(with = "Option<String>")]
    pub timeout: Option<Duration>,
    /// How long a claim holds without a heartbeat; `None`: that of the settings.
    #[serde(serialize_with = "crate::retry::as_optional_text")]
    #[schemars(with = "Option<String>")]
    pub lease: Option<Duration>,
    /// Take-backs of a lost task, without progress between them, before it is undone instead.
    pub max_recoveries: u32,
    /// What happens when a host is lost while the task goes forward. An undo always continues on another
    /// host.
    pub on_lost: OnLost,
    /// Whether a client may cancel it.
    pub cancellable: bool,
    /// What an undo that gave up leads to.
    pub on_undo_failure: OnUndoFailure,
    /// When failures make the type take no more submissions; `None`: never, unless the settings say
    /// so.
    #[schemars(with = "ShownAutoDisable")]
    pub auto_disable: Option<AutoDisable>,
    /// The names of the labels that it makes of each request.
    pub labels: &'static [&'static str],
    /// How its tasks share what there is.
    pub flow: FlowDecl,
    /// In ascending order of their numbers.
    pub steps: &'static [StepDecl],
    /// The request's type as written.
    pub request: &'static str,
    /// The response's type as written.
    pub response: &'static str,
}

impl TaskDecl {
    /// The name in routes: `create-zip-from-files`.
    #[must_use]
    pub fn route(&self) -> String {
        kebab_case(self.name)
    }

    /// The queue on which steps of `host` are dispatched, or its lane.
    #[must_use]
    pub fn queue_of(&self, host: Host) -> QueueName {
        let queue = QueueName(self.queue.to_owned());
        match (host, self.flow.priority) {
            (Host::Api, _) => QueueName(format!("{}.api", self.queue)),
            (Host::Worker, Priority::High) => queue.urgent(),
            (Host::Worker, Priority::Normal) => queue,
            (Host::Worker, Priority::Low) => queue.backlog(),
        }
    }

    /// Whether one of its steps goes on where the database cannot be reached.
    #[must_use]
    pub fn finishes_when_cut_off(&self) -> bool {
        let finishes = |step: &StepDecl| step.when_cut_off == WhenCutOff::Finish;
        self.steps.iter().any(finishes)
    }

    /// The step of this name.
    #[must_use]
    pub fn step(&self, name: &str) -> Option<&'static StepDecl> {
        self.steps.iter().find(|step| step.name == name)
    }

    /// A short digest of everything that a task in flight depends on. It changes when a step is
    /// renamed, moved, added or removed, or when its types or placement change; not when only
    /// policies change.
    #[must_use]
    pub fn definition_hash(&self) -> String {
        let mut text = format!(
            "{}:{}:{}:{}",
            self.name, self.version, self.request, self.response
        );
        for step in self.steps {
            let inputs: Vec<_> = step
                .inputs
                .iter()
                .map(|input| format!("{}={}", input.source, input.ty))
                .collect();
            text.push_str(&format!(
                "|{}:{}:{}:{}:{}:{:?}:{:?}:{}",
                step.no,
                step.name,
                step.host,
                inputs.join(","),
                step.output,
                step.group,
                step.when,
                step.undo.has_effects(),
            ));
            // Only where there is something to say: declarations without it keep the digest that
            // their tasks carry.
            if let Some(waits) = step.waits {
                text.push_str(&format!(":{waits:?}"));
            }
        }
        // FNV-1a, 64 bits: a fingerprint against mistakes, not against an adversary.
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        format!("{hash:016x}")
    }
}

/// `CreateZipFromFiles` → `create-zip-from-files`.
#[must_use]
pub fn kebab_case(name: &str) -> String {
    let mut kebab = String::with_capacity(name.len() + 8);
    let mut before: Option<char> = None;
    let mut chars = name.chars().peekable();
    while let Some(c) = chars.next() {
        let starts_word = c.is_uppercase()
            && before.is_some_and(|before| {
                !before.is_uppercase() || chars.peek().is_some_and(|next| next.is_lowercase())
            });
        if starts_word && !kebab.ends_with('-') {
            kebab.push('-');
        }
        if c == '_' {
            kebab.push('-');
        } else {
            kebab.extend(c.to_lowercase());
        }
        before = Some(c);
    }
    kebab
}

#[cfg(test)]
mod tests {
    use super::kebab_case;

    #[test]
    fn routes_are_kebab_case() {
        assert_eq!(kebab_case("CreateZipFromFiles"), "create-zip-from-files");
        assert_eq!(kebab_case("TranscodeVideo4K"), "transcode-video4-k");
        assert_eq!(kebab_case("HTTPPing"), "http-ping");
        assert_eq!(kebab_case("place_order"), "place-order");
    }
}
