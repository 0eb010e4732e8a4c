//! Documents: the small records beside the tasks, each a JSON text under a kind, a tenant and a
//! name. The store keeps them, counts their revision and finds those that are due; the kernel
//! writes and reads their bodies ([`documents`](crate::documents)).

use crate::record::DbTime;
use counterstep_contracts::{Rev, Tenant};

/// What a document is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DocumentKind {
    /// A schedule.
    Schedule,
    /// A task type that was disabled once.
    TaskType,
    /// An API key.
    ApiKey,
    /// A webhook that is sent, or was.
    Webhook,
    /// A process, in the worker registry.
    Worker,
    /// What processes hold of a limit.
    Limit,
    /// Values of a limit that a person has set.
    LimitValues,
    /// A queue that is paused.
    Queue,
    /// Processes of a machine that are paused.
    PausedWorkers,
    /// A breaker that a person has closed, where each process has its own.
    ClosedBreaker,
    /// How far a listing of all objects has come.
    Listing,
    /// What was changed beside tasks, and by whom.
    Audit,
    /// An operation on many tasks.
    Bulk,
    /// What became of some tasks of such an operation.
    BulkTasks,
    /// A message that no host can read.
    Poison,
    /// A saved view of the list of tasks.
    View,
    /// How long tasks took, of a type and an hour.
    Durations,
}

impl DocumentKind {
    /// Every kind.
    pub const ALL: [Self; 17] = [
        Self::Schedule,
        Self::TaskType,
        Self::ApiKey,
        Self::Webhook,
        Self::Worker,
        Self::Limit,
        Self::LimitValues,
        Self::Queue,
        Self::PausedWorkers,
        Self::ClosedBreaker,
        Self::Listing,
        Self::Audit,
        Self::Bulk,
        Self::BulkTasks,
        Self::Poison,
        Self::View,
        Self::Durations,
    ];

    /// As it stands in the column `kind`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
            Self::TaskType => "task_type",
            Self::ApiKey => "api_key",
            Self::Webhook => "webhook",
            Self::Worker => "worker",
            Self::Limit => "limit",
            Self::LimitValues => "limit_values",
            Self::Queue => "queue",
            Self::PausedWorkers => "paused_workers",
            Self::ClosedBreaker => "closed_breaker",
            Self::Listing => "listing",
            Self::Audit => "audit",
            Self::Bulk => "bulk",
            Self::BulkTasks => "bulk_tasks",
            Self::Poison => "poison",
            Self::View => "view",
            Self::Durations => "durations",
        }
    }

    /// Whether a write must be on the disk when the store answers. Of the others, each process
    /// writes its row, and what it holds of a limit, again with its next refresh, and a listing may
    /// read some pages again.
    #[must_use]
    pub const fn is_durable(self) -> bool {
        matches!(
            self,
            Self::Schedule
                | Self::TaskType
                | Self::ApiKey
                | Self::Webhook
                | Self::LimitValues
                | Self::Queue
                | Self::PausedWorkers
                | Self::ClosedBreaker
                | Self::Audit
                | Self::Bulk
                | Self::BulkTasks
                | Self::Poison
                | Self::View
                | Self::Durations
        )
    }
}

/// A document as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Tenant that owns it.
    pub tenant: Tenant,
    /// Its name; unique within its kind and tenant.
    pub name: String,
    /// Grows by one with each write.
    pub rev: Rev,
    /// JSON.
    pub body: String,
    /// When something is to be done about it.
    pub due_at: Option<DbTime>,
    /// Its last write, by the database's clock.
    pub seen_at: DbTime,
}

impl Document {
    /// Its place in the order of those that are due.
    #[must_use]
    pub fn due_place(&self) -> Option<DuePlace> {
        Some(DuePlace {
            due: self.due_at?,
            tenant: self.tenant.clone(),
            name: self.name.clone(),
        })
    }
}

/// Where a document stands in the order of those that are due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DuePlace {
    /// Its due time.
    pub due: DbTime,
    /// Tenant that owns it.
    pub tenant: Tenant,
    /// Name of the document.
    pub name: String,
}

/// Which documents to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DocumentQuery {
    /// Those of these names, by name.
    Named {
        /// Kind of the documents.
        kind: DocumentKind,
        /// Tenant that owns it.
        tenant: Tenant,
        /// Their names.
        names: Vec<String>,
    },
    /// As `Named`; where the database has a standby, it has what is read, as it has what was written.
    Confirmed {
        /// Kind of the documents.
        kind: DocumentKind,
        /// Tenant that owns it.
        tenant: Tenant,
        /// Their names.
        names: Vec<String>,
    },
    /// A page, by name.
    Page {
        /// Kind of the documents.
        kind: DocumentKind,
        /// Tenant that owns it.
        tenant: Tenant,
        /// Behind this name.
        after: Option<String>,
        /// Maximum number of them.
        limit: u32,
    },
    /// Those that are due, of all tenants: by due time, tenant and name.
    Due {
        /// Kind of the documents.
        kind: DocumentKind,
        /// Behind this one.
        after: Option<DuePlace>,
        /// Maximum number of them.
        limit: u32,
    },
    /// The first of a tenant that are due, in the same order.
    DueOf {
        /// Kind of the documents.
        kind: DocumentKind,
        /// Tenant that owns it.
        tenant: Tenant,
        /// Maximum number of them.
        limit: u32,
    },
    /// Of all tenants, the last written first; then by name.
    Latest {
        /// Kind of the documents.
        kind: DocumentKind,
        /// Maximum number of them.
        limit: u32,
    },
}

impl DocumentQuery {
    /// Whether people ask for it, however long it takes. Pauses the engine reads itself.
    #[must_use]
    pub fn is_list(&self) -> bool {
        matches!(self, Self::Page { kind, .. } if !matches!(kind, DocumentKind::Queue | DocumentKind::PausedWorkers))
    }
}

/// Documents, and the time at which they were read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Documents {
    /// The database's clock in the same snapshot.
    pub now: DbTime,
    /// In the order of the query.
    pub rows: Vec<Document>,
}

/// A change of one document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentWrite {
    /// Kind of the document.
    pub kind: DocumentKind,
    /// Tenant that owns it.
    pub tenant: Tenant,
    /// Name of the document.
    pub name: String,
    /// Only where it is at this revision; 0: where there is none. `None`: whatever it is.
    pub expected: Option<Rev>,
    /// What becomes of it.
    pub change: DocumentChange,
}

/// What becomes of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DocumentChange {
    /// It has this body and this due time.
    Put {
        /// JSON.
        body: String,
        /// When something is to be done about it.
        due_at: Option<DbTime>,
    },
    /// It is deleted.
    Delete,
}

/// What became of documents that were to be written together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentsPut {
    /// All were, at this time of the database.
    Written(DbTime),
    /// None was: the one at this place, from 0, is not at the expected revision.
    Refused(usize),
}
