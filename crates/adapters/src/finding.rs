//! What a server cannot promise, in one form for all of them.

use serde::Serialize;

/// The codes of all findings.
pub const CODES: &[&str] = &[
    "nats_duplicate_window",
    "nats_limits",
    "nats_max_deliver",
    "nats_plaintext",
    "nats_replicas",
    "nats_retention",
    "nats_rights",
    "nats_storage",
    "nats_sync_interval",
    "nats_unreachable",
    "nats_version",
    "objects_unreachable",
    "postgres_connections",
    "postgres_fsync",
    "postgres_full_page_writes",
    "postgres_standby",
    "postgres_statement_timeout",
    "postgres_synchronous_commit",
    "postgres_unreachable",
    "postgres_version",
    "redis_cluster",
    "redis_even_servers",
    "redis_may_evict",
    "redis_plaintext",
    "redis_replica",
    "redis_unreachable",
    "redis_version",
    "secret_file_open",
    "service_unset",
    "service_unusable",
    "sqlite_log_has_deleted",
    "sqlite_one_process",
    "sqlite_unreadable",
    "sqlite_vacuum",
    "state_missing",
    "table_rights",
    "type_missing",
];

/// Something about a server that an operator should know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Stable name: the server's kind, an underscore, what is wrong.
    pub code: &'static str,
    /// What was found, where.
    pub what: String,
    /// What it leads to.
    pub why: &'static str,
    /// What to do about it.
    pub to_do: String,
}
