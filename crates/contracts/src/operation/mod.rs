//! Operations: what a caller may ask of a running installation, as data. Each is declared once, in
//! the file of its group; the routes and the OpenAPI document are made of the declarations. Must not do what one asks for:
//! `counterstep_operations` has a function for each.

mod about;
pub mod alerts;
pub mod breakers;
pub mod bulk;
pub mod bulk_pace;
mod bulk_shown;
pub(crate) mod command;
pub mod dead_letters;
pub mod decisions;
pub(crate) mod examples;
pub mod gates;
pub mod keys;
pub mod limits;
pub mod open_effects;
pub mod past;
pub mod poison;
pub mod query;
pub mod queues;
mod route;
pub mod schedules;
pub mod shown;
mod target;
pub mod task_lists;
pub mod task_types;
pub mod task_views;
pub mod tasks;
pub mod views;
pub mod webhooks;
pub mod workers;

pub use about::{About, Preview};
pub use command::{Also, Command, Flag, GateMove, Preset, Takes};
pub use query::{Cursor, Limit, QueryParam, Time};
pub(crate) use route::WHOLE_LIST;
pub use route::{Access, Chapter, Ids, Link, Look, Param, TASK_LINKS, Verb};
pub use shown::ShownFn;
pub(crate) use target::text_target;
pub use target::{BadTarget, TASK_ID, TASK_IDS, Target, text};

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use shown::{Shown, View};

/// Adds the schema of a type to those of a document.
pub type SchemaFn = fn(&mut SchemaGenerator) -> Schema;

/// An operation. `()` as its input or output is no body.
pub trait Operation: 'static {
    /// What its address names.
    type Target: Target;
    /// What is sent with it: of one that reads the query, of another one the body.
    type Input: Serialize + DeserializeOwned + JsonSchema + Send + 'static;
    /// What it answers.
    type Output: Serialize + JsonSchema + Send + 'static;
    /// All else that is written down of it.
    const ABOUT: About;
    /// What it may answer with another status.
    const OTHER: Option<OtherAnswer<Self::Output>> = None;
    /// How people see its answer; `None`: as JSON.
    const SHOWN: Option<Shown<Self::Output>> = None;

    /// What is sent, and what is answered to it: values, so that an example that does not fit does not compile.
    fn example() -> (Self::Input, Self::Output);

    /// The path to what it has made.
    fn location(_: &Self::Output) -> Option<String> {
        None
    }
}

/// What an operation may answer with another status.
#[derive(Debug, Clone, Copy)]
pub struct OtherAnswer<T> {
    /// The status.
    pub status: u16,
    /// What is so then.
    pub answers: &'static str,
    /// Whether an output is answered so.
    pub is_it: fn(&T) -> bool,
    /// Such an output.
    pub example: fn() -> T,
    /// Where the two are of different types: the schema of the usual one, and that of this one.
    pub schemas: Option<[SchemaFn; 2]>,
}

/// What an operation may answer with another status, without its type.
#[derive(Debug, Clone, Copy)]
pub struct OtherReply {
    /// The status.
    pub status: u16,
    /// What is so then.
    pub answers: &'static str,
    /// The value.
    pub body: Body,
    /// Whether it is of another type, whose fields lead nowhere.
    pub is_of_its_own: bool,
}

/// A JSON value that is sent or answered.
#[derive(Debug, Clone, Copy)]
pub struct Body {
    /// The schema of its type.
    pub schema: SchemaFn,
    /// A value of it.
    pub example: fn() -> Value,
}

/// A declaration without its types.
#[derive(Debug, Clone, Copy)]
pub struct Declared {
    /// What is written down of it.
    pub about: About,
    /// The parameters of its path.
    pub params: &'static [Param],
    /// What is sent with it; `None`: neither a query nor a body is read.
    pub input: Option<Body>,
    /// The parameters that have its fields, where they are a query; `None`: it is a body.
    pub query: Option<fn() -> Vec<QueryParam>>,
    /// What it answers; `None`: no body.
    pub output: Option<Body>,
    /// What it may answer with another status.
    pub other: Option<OtherReply>,
    /// Whether its answers name the address of what it has made.
    pub is_located: fn() -> bool,
    /// Refuses segments of its path that have another form than its target.
    pub check: fn(&[&str]) -> Result<(), BadTarget>,
    /// An answer as people see it; `None`: as JSON.
    pub shown: Option<ShownFn>,
}

impl Body {
    const fn of_input<O: Operation>() -> Self {
        Self {
            schema: schema::<O::Input>,
            example: || value(&O::example().0),
        }
    }

    /// The schema of its type, with those of its fields in their places.
    #[must_use]
    pub fn whole_schema(&self) -> Value {
        let settings = SchemaSettings::draft2020_12().with(|it| it.inline_subschemas = true);
        (self.schema)(&mut settings.into_generator()).to_value()
    }
}

impl Declared {
    /// What is read of a body; `None`: none is.
    #[must_use]
    pub fn body(&self) -> Option<Body> {
        self.input.filter(|_| self.query.is_none())
    }

    /// An operation for each command that asks for it: with that command, and what is said of it there.
    pub fn commands(&self) -> impl Iterator<Item = Self> + use<> {
        let of = *self;
        let presets = of.about.presets.iter().map(move |preset| Self {
            about: About {
                summary: preset.summary,
                command: Some(preset.command),
                ..of.about
            },
            shown: preset.shown.or(of.shown),
            ..of
        });
        of.about.command.map(|_| of).into_iter().chain(presets)
    }

    /// The declaration of this operation. An impossible one is an error of the compiler.
    #[must_use]
    pub const fn of<O: Operation>() -> Self {
        let about = O::ABOUT;
        let (takes, answers) = (size_of::<O::Input>() > 0, size_of::<O::Output>() > 0);
        about.check(O::Target::PARAMS.len(), takes, answers);
        let of_both = match &O::OTHER {
            Some(it) => it.schemas,
            None => None,
        };
        let [usual, other] = match of_both {
            Some(schemas) => schemas,
            None => [schema::<O::Output> as SchemaFn; 2],
        };
        let output = Body {
            schema: usual,
            example: || value(&O::example().1),
        };
        let other = match &O::OTHER {
            Some(it) => {
                assert!(
                    answers && it.status != about.status && about::is_success(it.status),
                    "another answer of an operation has an output and another status of success"
                );
                let body = Body {
                    schema: other,
                    example: || O::OTHER.map_or(Value::Null, |it| value(&(it.example)())),
                };
                Some(OtherReply {
                    status: it.status,
                    answers: it.answers,
                    body,
                    is_of_its_own: of_both.is_some(),
                })
            }
            None => None,
        };
        Self {
            about,
            params: O::Target::PARAMS,
            input: if takes {
                Some(Body::of_input::<O>())
            } else {
                None
            },
            query: if takes && matches!(about.verb, Verb::Get) {
                Some(query::of::<O>)
            } else {
                None
            },
            output: if answers { Some(output) } else { None },
            other,
            is_located: || O::location(&O::example().1).is_some(),
            check: |segments| O::Target::parse(segments).map(drop),
            shown: match O::SHOWN {
                Some(_) => Some(shown::<O>),
                None => None,
            },
        }
    }
}

fn shown<O: Operation>(answer: &[u8]) -> serde_json::Result<View> {
    match O::SHOWN {
        Some(shown) => shown.of(answer),
        None => Ok(View::Lines(Vec::new())),
    }
}

fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

fn value(example: &impl Serialize) -> Value {
    serde_json::to_value(example).unwrap_or_default()
}

/// Gives a macro the types of all operations.
#[macro_export]
macro_rules! operations {
    ($then:ident) => {
        $then! {
            $crate::operation::gates::ListGates,
            $crate::operation::queues::ListQueues,
            $crate::operation::queues::PauseQueue,
            $crate::operation::queues::ResumeQueue,
            $crate::operation::workers::PauseWorkers,
            $crate::operation::workers::ResumeWorkers,
            $crate::operation::limits::ListLimits,
            $crate::operation::limits::SetLimit,
            $crate::operation::limits::ResetLimit,
            $crate::operation::task_types::ListTaskTypes,
            $crate::operation::task_types::DisableTaskType,
            $crate::operation::task_types::EnableTaskType,
            $crate::operation::task_types::GetTypeDurations,
            $crate::operation::alerts::ListAlerts,
            $crate::operation::alerts::SendTestAlert,
            $crate::operation::alerts::ListAlertSecrets,
            $crate::operation::webhooks::ListWebhooks,
            $crate::operation::webhooks::SendWebhook,
            $crate::operation::webhooks::GetWebhookSecrets,
            $crate::operation::poison::ListPoisonMessages,
            $crate::operation::poison::RemovePoisonMessage,
            $crate::operation::keys::ListKeys,
            $crate::operation::keys::MakeKey,
            $crate::operation::keys::RevokeKey,
            $crate::operation::keys::GetCaller,
            $crate::operation::schedules::ListSchedules,
            $crate::operation::schedules::GetSchedule,
            $crate::operation::schedules::PutSchedule,
            $crate::operation::schedules::DeleteSchedule,
            $crate::operation::schedules::PauseSchedule,
            $crate::operation::schedules::ResumeSchedule,
            $crate::operation::schedules::RunSchedule,
            $crate::operation::breakers::ListBreakers,
            $crate::operation::breakers::CloseBreaker,
            $crate::operation::decisions::ResolveTask,
            $crate::operation::decisions::RetryTask,
            $crate::operation::decisions::SetRecoveries,
            $crate::operation::tasks::CancelTask,
            $crate::operation::tasks::SendSignal,
            $crate::operation::tasks::GetPayloads,
            $crate::operation::tasks::CheckAudit,
            $crate::operation::task_views::GetAudit,
            $crate::operation::past::GetTaskAt,
            $crate::operation::task_views::GetUndoPlan,
            $crate::operation::task_views::ExplainTask,
            $crate::operation::task_views::GetDeadLetter,
            $crate::operation::task_lists::ListTasks,
            $crate::operation::task_lists::SuggestSearches,
            $crate::operation::views::ListViews,
            $crate::operation::views::PutView,
            $crate::operation::views::DeleteView,
            $crate::operation::task_lists::ListChildren,
            $crate::operation::task_lists::GetLog,
            $crate::operation::dead_letters::ListDeadLetters,
            $crate::operation::dead_letters::GroupDeadLetters,
            $crate::operation::open_effects::ListOpenEffects,
            $crate::operation::open_effects::SumOpenEffects,
            $crate::operation::bulk::ListBulkOperations,
            $crate::operation::bulk::StartBulkOperation,
            $crate::operation::bulk::GetBulkOperation,
            $crate::operation::bulk::StopBulkOperation,
            $crate::operation::bulk_pace::PauseBulkOperation,
            $crate::operation::bulk_pace::ResumeBulkOperation,
            $crate::operation::bulk_pace::ListBulkOperationTasks,
            $crate::operation::workers::ListWorkers,
            $crate::operation::workers::ShowWorker,
        }
    };
}

macro_rules! declared {
    ($($it:path),+ $(,)?) => {
        /// All operations, without their types.
        pub const ALL: &[Declared] = &[$(Declared::of::<$it>()),+];
    };
}
operations!(declared);

/// Gives a macro the types of those whose routes have handlers of their own.
macro_rules! by_hand {
    ($then:ident) => {
        $then! { $crate::operation::tasks::RunTaskAgain }
    };
}

macro_rules! declared_by_hand {
    ($($it:path),+ $(,)?) => {
        /// Operations whose routes have handlers of their own. All else follows from the declarations.
        pub const BY_HAND: &[Declared] = &[$(Declared::of::<$it>()),+];
    };
}
by_hand!(declared_by_hand);

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Whether the two examples are answered with the statuses that they are examples of.
    fn tells_its_answers_apart<O: Operation>() -> bool {
        let example = O::example().1;
        O::OTHER.is_none_or(|it| (it.is_it)(&(it.example)()) && !(it.is_it)(&example))
    }

    /// Whether something holds of an operation, and its name.
    type Tells = (fn() -> bool, &'static str);

    macro_rules! tells {
        ($($it:path),+ $(,)?) => { &[$((tells_its_answers_apart::<$it>, stringify!($it))),+] };
    }
    const TELLS: &[Tells] = operations!(tells);

    #[test]
    fn each_answer_has_the_status_of_its_example() {
        for (tells, of) in TELLS {
            assert!(tells(), "{of}");
        }
    }

    #[test]
    fn each_operation_has_an_id_and_a_route_of_its_own() {
        let ids: BTreeSet<_> = ALL.iter().map(|it| it.about.id).collect();
        let route = |it: &Declared| (it.about.path, it.about.verb.name());
        let routes: BTreeSet<_> = ALL.iter().map(route).collect();
        assert_eq!((ids.len(), routes.len()), (ALL.len(), ALL.len()));
    }

    fn reads_its_path<O: Operation>() -> bool {
        let examples = O::Target::PARAMS.iter().map(|it| it.example);
        O::Target::parse(&examples.collect::<Vec<_>>()).is_ok()
    }

    macro_rules! reads {
        ($($it:path),+ $(,)?) => { &[$((reads_its_path::<$it>, stringify!($it))),+] };
    }
    const READS: &[Tells] = operations!(reads);

    #[test]
    fn the_examples_of_each_path_are_read() {
        for (reads, of) in READS {
            assert!(reads(), "{of}");
        }
    }

    #[test]
    fn each_example_of_a_body_is_an_object() {
        for it in ALL {
            let other = it.other.as_ref().map(|other| &other.body);
            for body in it.input.iter().chain(&it.output).chain(other) {
                assert!((body.example)().is_object(), "{}", it.about.id);
            }
        }
    }

    /// A declaration that the list does not have is in no route, and nothing else would notice.
    #[test]
    fn each_declaration_is_in_the_list() {
        macro_rules! names {
            ($($it:path),+ $(,)?) => { &[$(stringify!($it)),+] };
        }
        let listed: &[&str] = operations!(names);
        let last = |it: &&str| it.rsplit("::").next().map(|it| it.trim().to_owned());
        let by_hand: &[&str] = by_hand!(names);
        let listed = listed.iter().chain(by_hand);
        let listed: BTreeSet<String> = listed.filter_map(last).collect();
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/operation");
        let mut declared = BTreeSet::new();
        for file in std::fs::read_dir(folder).expect("the declarations") {
            let text = std::fs::read_to_string(file.expect("a file").path()).expect("a text");
            let names = text
                .lines()
                .filter_map(|line| line.strip_prefix("impl Operation for "));
            let name = |it: &str| it.split([' ', '<']).next().map(str::to_owned);
            declared.extend(names.filter_map(name));
        }
        assert_eq!(declared, listed);
    }
}
