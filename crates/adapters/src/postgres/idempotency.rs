//! The table `idempotency`.

use super::fault::{Fault, name, read_json, write_json};
use super::statement::{Bind, Statement, Str, interval, values};
use counterstep_contracts::{TaskId, Tenant};
use counterstep_kernel::ports::IdempotencyRow;
use counterstep_kernel::transition::IdempotencyWrite;
use diesel::sql_types as sql;
use uuid::Uuid;

/// What `counterstep_refuse` is called with where the key is another task's.
pub(super) const TAKEN: &str = "idempotency_key_taken";

// The conflict is judged on the row as it is, not on the statement's view of it: of two first requests one waits for
// the other and then finds its row.
const PUT: &str = ", key_put AS (INSERT INTO idempotency AS i
    (tenant, key, task, fingerprint, answer, expires_at, change_id)
  SELECT ?, ?, t.id, ?, ?, t.now + ?, t.change_id FROM t
  ON CONFLICT (tenant, key) DO UPDATE SET task = excluded.task, fingerprint = excluded.fingerprint,
     answer = excluded.answer, expires_at = excluded.expires_at, change_id = excluded.change_id
  WHERE i.task = excluded.task OR i.expires_at <= now()
  RETURNING 1)";

/// A column of the commit's answer, behind [`PUT`].
pub(super) const PUT_OR_REFUSE: &str = ",
  CASE WHEN EXISTS (SELECT FROM key_put) THEN TRUE ELSE counterstep_refuse('idempotency_key_taken') END";

const DELETE: &str = ", key_deleted AS (DELETE FROM idempotency i USING t
  WHERE i.tenant = ? AND i.key = ? AND i.task = t.id)";

/// Adds a change of a key. Whether the answer needs [`PUT_OR_REFUSE`].
pub(super) fn write<'a, Row>(
    statement: &mut Statement<'a, Row>,
    write: Option<&'a IdempotencyWrite>,
) -> Result<bool, Fault> {
    let (tenant, key, finished, expires_in) = match write {
        None => return Ok(false),
        Some(IdempotencyWrite::Abandon { tenant, key }) => {
            statement.push(DELETE, values![name("idempotency.tenant", &tenant.0)?, name("idempotency.key", key)?]);
            return Ok(false);
        }
        Some(IdempotencyWrite::Begin { tenant, key, expires_in }) => (tenant, key, None, *expires_in),
        Some(IdempotencyWrite::Finish { tenant, key, fingerprint, answer, expires_in }) => {
            let finished = (name("idempotency.fingerprint", fingerprint)?, write_json(answer)?);
            (tenant, key, Some(finished), *expires_in)
        }
    };
    let (fingerprint, answer): (Option<Str<'a>>, Option<Str<'a>>) = finished.unzip();
    let (tenant, key) = (name("idempotency.tenant", &tenant.0)?, name("idempotency.key", key)?);
    let binds: [Bind<'a>; 5] = values![tenant, key, fingerprint, answer, interval(expires_in)];
    statement.push(PUT, binds);
    Ok(true)
}

type SomeText = sql::Nullable<sql::Text>;

/// A row: task, fingerprint, answer.
pub(super) type Read = (Uuid, Option<String>, Option<String>);

/// The unexpired row of a key.
pub(super) fn find<'a>(tenant: &'a Tenant, key: &'a str) -> Statement<'a, (sql::Uuid, SomeText, SomeText)> {
    Statement::of(
        "SELECT task, fingerprint, answer FROM idempotency WHERE tenant = ? AND key = ? AND expires_at > now()",
        values![tenant.0.as_str(), key],
    )
}

/// What [`find`] has read.
pub(super) fn decode((task, fingerprint, answer): Read) -> Result<IdempotencyRow, Fault> {
    let finished = match (fingerprint, answer) {
        (Some(fingerprint), Some(answer)) => Some((fingerprint, read_json("idempotency.answer", &answer)?)),
        (Some(_), None) | (None, Some(_)) => {
            return Err(Fault::Corrupt("idempotency: an answer and its fingerprint go together".to_owned()));
        }
        (None, None) => None,
    };
    Ok(IdempotencyRow { task: TaskId(task), finished })
}
