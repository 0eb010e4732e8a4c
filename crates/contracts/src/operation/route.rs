//! What is said of a route as data: its method, who may use it, its chapter of the OpenAPI document, the parameters of
//! its path. Must not answer a request.

use crate::access::Role;
use serde_json::Value;

/// Who may use a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// All: it shows nothing of a task.
    Open,
    /// Holders of a signed address, which its handler checks.
    Signed,
    /// Callers with this role, or one that includes it.
    Role(Role),
    /// Administrators of the installation: what it shows or changes is of all tenants.
    Installation,
}

impl Access {
    /// The role that a caller needs at least; `None`: no caller is looked for.
    #[must_use]
    pub const fn role(self) -> Option<Role> {
        match self {
            Self::Open | Self::Signed => None,
            Self::Role(role) => Some(role),
            Self::Installation => Some(Role::Admin),
        }
    }
}

/// The method of a route. HEAD is answered like GET; the server leaves the body out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Reads.
    Get,
    /// Changes something.
    Post,
    /// Sets what the address names.
    Put,
    /// Deletes what the address names.
    Delete,
}

impl Verb {
    /// Its name in HTTP.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }
}

/// A chapter of the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chapter {
    /// Submissions.
    Submitting,
    /// Tasks.
    Tasks,
    /// Parked tasks.
    Deciding,
    /// Schedules.
    Schedules,
    /// Task types, and what holds their tasks back.
    Types,
    /// API keys.
    Keys,
    /// The processes.
    Process,
}

impl Chapter {
    /// All, in the order of the document.
    pub const ALL: [Self; 7] = [
        Self::Submitting,
        Self::Tasks,
        Self::Deciding,
        Self::Schedules,
        Self::Types,
        Self::Keys,
        Self::Process,
    ];

    /// Its name, and what it is about.
    #[must_use]
    pub const fn texts(self) -> (&'static str, &'static str) {
        match self {
            Self::Submitting => ("submitting", "A request becomes a task"),
            Self::Tasks => (
                "tasks",
                "Look at tasks, wait for them, cancel them, get their files",
            ),
            Self::Deciding => ("deciding", "What a person decides about parked tasks"),
            Self::Schedules => ("schedules", "Tasks that are submitted by time"),
            Self::Types => (
                "task types",
                "What was declared, and what takes submissions",
            ),
            Self::Keys => ("keys", "API keys, of the caller's tenant"),
            Self::Process => ("process", "Health, metrics and this document"),
        }
    }
}

/// A parameter of the path, of the query or in a header.
#[derive(Debug, Clone, Copy)]
pub struct Param {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// The schema of one value; where it repeats, an array of them.
    pub schema: fn() -> Value,
    /// A value.
    pub example: &'static str,
    /// Where such ids are listed, where it is one that a list names.
    pub ids: Option<&'static Ids>,
}

/// Ids of one kind, and where they are listed: a command takes a part of one that fits no other.
#[derive(Debug, Clone, Copy)]
pub struct Ids {
    /// What has such an id.
    pub of: &'static str,
    /// A whole one has no fewer characters.
    pub length: usize,
    /// What it may have beside hexadecimal digits.
    pub signs: &'static str,
    /// The operation that lists them; its address names what stands before the id.
    pub list: &'static str,
    /// The field of an item of that list which has the id.
    pub field: &'static str,
    /// Fields from which people see which one it is.
    pub shown: &'static [&'static str],
    /// How the list is asked, one after another.
    pub looks: &'static [Look],
}

/// One look through a list.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// The query; null, where the list takes none.
    pub query: fn() -> Value,
    /// Items that are looked at, as far as pages have an end there.
    pub most: usize,
    /// Which ones they are.
    pub among: &'static str,
}

/// A list that answers all of its items at once.
pub(crate) const WHOLE_LIST: &[Look] = &[Look {
    query: || Value::Null,
    most: usize::MAX,
    among: "",
}];

/// Where an answer leads: an operation, and what it takes of the answer or of the request.
#[derive(Debug, Clone, Copy)]
pub struct Link {
    /// The id of the operation.
    pub operation: &'static str,
    /// Its parameter.
    pub parameter: &'static str,
    /// An expression of OpenAPI, as `$response.body#/task_id`.
    pub value: &'static str,
}

const fn of_task(operation: &'static str) -> Link {
    Link {
        operation,
        parameter: "task_id",
        value: "$response.body#/task_id",
    }
}

/// Where an accepted task leads.
pub const TASK_LINKS: &[Link] = &[
    of_task("getTask"),
    of_task("cancelTask"),
    of_task("getAudit"),
    of_task("listChildren"),
    of_task("getLog"),
    of_task("getUndoPlan"),
    of_task("explainTask"),
    of_task("listWebhooks"),
    of_task("sendSignal"),
    of_task("retryTask"),
    of_task("resolveTask"),
    of_task("setRecoveries"),
    of_task("runTaskAgain"),
];
