//! Errors on HTTP: RFC 9457 problem documents with a stable `code`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! problem_codes {
    ($($(#[$doc:meta])* $variant:ident = $code:literal, $status:literal, $title:literal;)+) => {
        /// What went wrong, for programs. A code never changes its meaning and is never reused.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
        pub enum ProblemCode {
            $($(#[$doc])* #[serde(rename = $code)] $variant,)+
        }

        impl ProblemCode {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Its stable text.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $code,)+ }
            }

            /// Its HTTP status.
            #[must_use]
            pub const fn status(self) -> u16 {
                match self { $(Self::$variant => $status,)+ }
            }

            /// One line for people, the same each time.
            #[must_use]
            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)+ }
            }
        }
    };
}

problem_codes! {
    /// The body is not what its content type says.
    MalformedBody = "malformed-body", 400, "The request body cannot be read";
    /// A part of the path or query is not of its form.
    MalformedParameter = "malformed-parameter", 400, "A parameter cannot be read";
    /// The `Idempotency-Key` header is not of its form.
    MalformedIdempotencyKey = "malformed-idempotency-key", 400, "The Idempotency-Key header is not valid";
    /// The `Authorization` header is not of its form, or there are several.
    MalformedAuthorization = "malformed-authorization", 400, "The Authorization header is not valid";
    /// The caller is not authenticated: no credential, or one that is unknown, expired or revoked.
    Unauthenticated = "unauthenticated", 401, "The request needs a valid credential";
    /// The caller's role does not allow it.
    Forbidden = "forbidden", 403, "The caller's role does not allow that";
    /// The `Host` is no name of this server.
    HostNotAllowed = "host-not-allowed", 403, "This server does not answer for that host";
    /// A page of another site sends what would change something.
    CrossSite = "cross-site", 403, "A page of another site must not do that";
    /// No such route.
    NoSuchRoute = "no-such-route", 404, "There is nothing at this address";
    /// No task of this id.
    NoSuchTask = "no-such-task", 404, "There is no such task";
    /// No task type of this name.
    NoSuchTaskType = "no-such-task-type", 404, "There is no such task type";
    /// The task's response has no stored file of this name.
    NoSuchResult = "no-such-result", 404, "The task has no such result";
    /// A link to a result that is not valid, has expired, or leads to nothing.
    NoSuchLink = "no-such-link", 404, "The link is not valid, or has expired";
    /// No step of the task's type waits for a signal of this name.
    NoSuchSignal = "no-such-signal", 404, "The task waits for no such signal";
    /// The task's type has no step of this name.
    NoSuchStep = "no-such-step", 404, "The task has no such step";
    /// No schedule of this name.
    NoSuchSchedule = "no-such-schedule", 404, "There is no such schedule";
    /// The task has no webhook of this id.
    NoSuchWebhook = "no-such-webhook", 404, "The task has no such webhook";
    /// No API key of this id.
    NoSuchKey = "no-such-key", 404, "There is no such API key";
    /// No queue of this name.
    NoSuchQueue = "no-such-queue", 404, "There is no such queue";
    /// No process of this id, or of this role on a machine of this name.
    NoSuchWorkers = "no-such-workers", 404, "There are no such processes";
    /// No breaker of this name.
    NoSuchBreaker = "no-such-breaker", 404, "There is no such breaker";
    /// No saved view has this name.
    NoSuchView = "no-such-view", 404, "There is no such saved view";
    /// No limit of this name.
    NoSuchLimit = "no-such-limit", 404, "There is no such limit";
    /// The tenant has no bulk operation of this id.
    NoSuchBulkOperation = "no-such-bulk-operation", 404, "There is no such bulk operation";
    /// The audit of the task has no entry of this number.
    NoSuchEntry = "no-such-entry", 404, "The audit has no such entry";
    /// No poison message of this id.
    NoSuchPoison = "no-such-poison-message", 404, "There is no such poison message";
    /// The route has other methods.
    MethodNotAllowed = "method-not-allowed", 405, "This address does not take that method";
    /// The body arrived too slowly.
    SlowBody = "slow-body", 408, "The request body arrived too slowly";
    /// Same idempotency key, first request still in progress.
    InProgress = "in-progress", 409, "A request with this Idempotency-Key is still in progress";
    /// Cancel: it had already completed.
    AlreadyCompleted = "already-completed", 409, "The task has already completed";
    /// Cancel: it had already failed.
    AlreadyFailed = "already-failed", 409, "The task has already failed";
    /// Cancel: it is being undone for another reason.
    BeingUndone = "being-undone", 409, "The task is already being undone";
    /// Cancel: a person settled it.
    AlreadyResolved = "already-resolved", 409, "The task has been resolved by an operator";
    /// Recoveries: the task has ended.
    AlreadyEnded = "already-ended", 409, "The task has ended";
    /// Cancel: it waits for a person.
    Parked = "parked", 409, "The task is parked for an operator";
    /// Cancel: its type does not allow it.
    NotCancellable = "not-cancellable", 409, "Tasks of this type cannot be cancelled";
    /// Resolve, retry: it does not wait for a person.
    NotParked = "not-parked", 409, "The task does not wait for an operator";
    /// Resolve: not like that, in the state of the task or the step.
    NotSettleable = "not-settleable", 409, "This cannot be settled like that now";
    /// Retry: it is being undone, and no step runs forward again.
    NoWayForward = "no-way-forward", 409, "The task is being undone and cannot go forward again";
    /// Run again: the task has not ended.
    NotEnded = "not-ended", 409, "The task has not ended";
    /// Run again from a step: the program has another version or definition of its type.
    DeclarationChanged = "declaration-changed", 409, "The task's type has been declared anew";
    /// Run again from a step: an earlier one was undone, or settled by hand.
    EffectsUndone = "effects-undone", 409, "What the steps before it did has been undone";
    /// Run again from a step: an earlier one has not completed.
    StepNotCompleted = "step-not-completed", 409, "A step before it has not completed";
    /// Run again from a step: it, or a later one, reads local files of an earlier one.
    ScratchRead = "scratch-read", 409, "Local files of the steps before it are needed";
    /// Run again from a step: an earlier one has submitted tasks.
    TasksSubmitted = "tasks-submitted", 409, "A step before it has submitted tasks";
    /// Run again: its request, or an output that is kept, was erased.
    PayloadErased = "payload-erased", 409, "What the task was given has been erased";
    /// Run again: files that it needs are not there any more.
    FilesGone = "files-gone", 409, "The files of the task are not there any more";
    /// Alerts: no address is set to which they go.
    AlertsOff = "alerts-off", 409, "Alerts go nowhere";
    /// Retry: a step has submitted tasks by the request, or the task is being undone.
    RequestNotChangeable = "request-not-changeable", 409, "The task's request cannot be changed now";
    /// Its type takes no submissions for now.
    TypeDisabled = "type-disabled", 409, "Tasks of this type are not taken for now";
    /// Schedule: a program declares it.
    ScheduleDeclared = "schedule-declared", 409, "The schedule is declared in code";
    /// Schedule: its last task runs, and it does not allow two.
    ScheduleBusy = "schedule-busy", 409, "The last task of the schedule still runs";
    /// The task has no result yet, or never will.
    NotCompleted = "not-completed", 409, "The task has not completed";
    /// Signal: the task no longer waits for it.
    SignalTooLate = "signal-too-late", 409, "The task no longer waits for this signal";
    /// Signal: another body was accepted for it before.
    SignalTaken = "signal-taken", 409, "Another body was accepted for this signal before";
    /// Bulk operation: an older program named the group, and it has other ids now.
    GroupRenamed = "group-renamed", 410, "The group has another id now";
    /// Body or part over its limit.
    TooLarge = "too-large", 413, "The request is too large";
    /// The address over its limit.
    AddressTooLong = "address-too-long", 414, "The address of the request is too long";
    /// Another content type is needed.
    UnsupportedMediaType = "unsupported-media-type", 415, "The content type is not supported";
    /// Result: the file has no byte of the range.
    RangeNotSatisfiable = "range-not-satisfiable", 416, "The file has no such range";
    /// The body can be read and breaks a rule.
    InvalidRequest = "invalid-request", 422, "The request is not valid";
    /// Resolve: the output does not fit the step's declared type.
    InvalidOutput = "invalid-output", 422, "The output does not fit the step";
    /// Same idempotency key, other body.
    IdempotencyMismatch = "idempotency-mismatch", 422, "This Idempotency-Key was used with another request";
    /// A webhook may not go to this address.
    InvalidWebhook = "invalid-webhook", 422, "The address of the webhook is not allowed";
    /// This server sends no webhooks.
    WebhooksOff = "webhooks-off", 422, "This server sends no webhooks";
    /// This server makes no links to results.
    LinksOff = "links-off", 422, "This server makes no links";
    /// A label that is not acceptable.
    InvalidLabel = "invalid-label", 422, "A label is not valid";
    /// A file name that is not acceptable.
    InvalidFileName = "invalid-file-name", 422, "A file name is not acceptable";
    /// A header is too large.
    HeaderTooLarge = "header-too-large", 431, "The request headers are too large";
    /// Our fault; the log has the details.
    Internal = "internal", 500, "The request could not be handled";
    /// The caller sends more requests than it may, or has as many streams or uploads open as it may.
    TooManyRequests = "too-many-requests", 429, "The caller asks for too much at a time";
    /// More tasks of the type wait than may.
    TooManyWaiting = "too-many-waiting", 429, "Too many tasks of this type wait";
    /// As many tasks of the type or key are under way as may be.
    TooManyAtOnce = "too-many-at-once", 409, "As many tasks of this type or key are under way as may be";
    /// As many streams are open as the process takes.
    TooManyStreams = "too-many-streams", 503, "Too many streams of events are open";
    /// A server that is needed does not answer.
    Unavailable = "unavailable", 503, "A service that is needed does not answer; try again later";
    /// The disk of the database or of the object store is full.
    StorageFull = "storage-full", 507, "There is no room to store it";
}

/// An RFC 9457 problem document (`application/problem+json`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// `urn:counterstep:problem:{code}`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The stable code.
    pub code: ProblemCode,
    /// One line for people, the same for each problem of this code.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What was wrong this time, what was expected, what to do.
    pub detail: String,
    /// JSON pointer, field name or parameter that is at fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
}

impl Problem {
    /// A problem of this code; `detail` says what was wrong this time, what was expected, and what
    /// to do.
    #[must_use]
    pub fn new(code: ProblemCode, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("urn:counterstep:problem:{}", code.as_str()),
            code,
            title: code.title().to_owned(),
            status: code.status(),
            detail: detail.into(),
            pointer: None,
        }
    }

    /// Names the field or parameter at fault.
    #[must_use]
    pub fn at(mut self, pointer: impl Into<String>) -> Self {
        self.pointer = Some(pointer.into());
        self
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} ({}): {}",
            self.title,
            self.code.as_str(),
            self.detail
        )?;
        match self.pointer.as_deref() {
            // The whole of it.
            None | Some("" | ".") => Ok(()),
            Some(pointer) => write!(f, " (at `{}`)", pointer.escape_debug()),
        }
    }
}

impl std::error::Error for Problem {}
