//! What is read of a task that was looked for, whichever query has found it.

use crate::sqlite::fault::{Fault, parse};
use counterstep_contracts::{Rev, Tenant};
use counterstep_kernel::ports::{KnownType, TaskHead};
use counterstep_steps::times::DbTime;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};

/// A task that was looked for, and since when it has been as it was asked for.
#[derive(Debug, QueryableByName)]
pub(in super::super) struct HeadRow {
    #[diesel(sql_type = BigInt)]
    pub(in super::super) since: i64,
    #[diesel(sql_type = Text)]
    pub(in super::super) id: String,
    #[diesel(sql_type = Text)]
    tenant: String,
    #[diesel(sql_type = Text)]
    task_type: String,
    #[diesel(sql_type = BigInt)]
    version: i64,
    #[diesel(sql_type = Text)]
    status: String,
    #[diesel(sql_type = BigInt)]
    rev: i64,
}

impl HeadRow {
    pub(in super::super) fn decode(self) -> Result<TaskHead, Fault> {
        Ok(TaskHead {
            task: parse("id", &self.id)?,
            tenant: Tenant(self.tenant),
            task_type: self.task_type,
            version: u32::try_from(self.version).ok(),
            status: parse("status", &self.status).ok(),
            rev: Rev(self.rev),
            since: DbTime(self.since),
        })
    }
}

/// Types, as queries compare them: a JSON list of `name/version/definition`.
pub(in super::super) fn known(types: &[KnownType]) -> String {
    let names: Vec<String> = types.iter().map(KnownType::key).collect();
    serde_json::json!(names).to_string()
}
