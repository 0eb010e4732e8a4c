//! Which settings each command takes, group by group. Must not know a single setting.

use super::groups::Group;

pub use super::flags::SettingsFor;
pub use super::groups::{takes, uses};

const FILE: u32 = uses(&[Group::File]);
const DATABASE: u32 = FILE | uses(&[Group::Process, Group::Database]);
/// What each process of an installation connects to. Commands that open the database accept these flags also where they have no
/// use for them.
pub(super) const SERVERS: u32 = DATABASE
    | uses(&[
        Group::Nats,
        Group::Redis,
        Group::Objects,
        Group::Lease,
        Group::Services,
    ]);
const SERVICE: u32 = SERVERS
    | uses(&[
        Group::Tasks,
        Group::Metrics,
        Group::Traces,
        Group::Policies,
        Group::Upkeep,
    ]);

/// What `api` takes.
pub const API: u32 = SERVICE | uses(&[Group::Steps, Group::Api]);
/// What `worker` takes.
pub const WORKER: u32 = SERVICE | uses(&[Group::Steps, Group::Worker]);
/// What `reconciler` takes.
pub const RECONCILER: u32 = SERVICE | uses(&[Group::Reconciler]);
/// What `dev` takes: what its roles do.
pub const DEV: u32 = API | WORKER | RECONCILER;
/// What `doctor` takes. The lease decides when messages are delivered again.
pub const DOCTOR: u32 = SERVERS;
/// What `fsck` takes.
pub const FSCK: u32 = DATABASE | uses(&[Group::Objects]);
/// What commands take that open the database alone.
pub const DATABASE_ONLY: u32 = DATABASE;
/// What `describe` takes.
pub const DESCRIBE: u32 = FILE | uses(&[Group::Policies]);
/// What commands take that talk to the API. No file: an operator may not be able to read that of the
/// services.
pub const REMOTE: u32 = uses(&[Group::Remote]);

/// The commands that take settings, in the order of the help.
pub const COMMANDS: &[(&str, u32)] = &[
    ("dev", DEV),
    ("api", API),
    ("worker", WORKER),
    ("reconciler", RECONCILER),
    ("migrate", DATABASE_ONLY),
    ("doctor", DOCTOR),
    ("check-deploy", DATABASE_ONLY),
    ("audit", DATABASE_ONLY),
    ("fsck", FSCK),
    ("keys", DATABASE_ONLY),
    ("payload-keys", DATABASE_ONLY),
    ("describe", DESCRIBE),
    ("tasks", REMOTE),
    ("views", REMOTE),
    ("dead-letters", REMOTE),
    ("effects", REMOTE),
    ("bulk", REMOTE),
    ("alerts", REMOTE),
    ("types", REMOTE),
    ("gates", REMOTE),
    ("queues", REMOTE),
    ("breakers", REMOTE),
    ("limits", REMOTE),
    ("schedules", REMOTE),
    ("workers", REMOTE),
    ("mcp", REMOTE),
];
