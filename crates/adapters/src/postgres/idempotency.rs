//! The table `idempotency`.

use super::fault::{Fault, name, write_json};
use super::statement::{Statement, Str, interval, replicated, rows_of, values};
use crate::rows::KeyTypes;
use counterstep_contracts::Tenant;
use counterstep_kernel::change::transition::{IdempotencyWrite, Transition};

/// What `counterstep_refuse` is called with where the key is another task's.
pub(super) use counterstep_kernel::ports::KEY_TAKEN as TAKEN;

// The conflict is judged on the row as it is, not on the statement's view of it: of two first
// requests one waits for the other and then finds its row.
const PUT: &str = ", key_put AS (INSERT INTO idempotency AS i
    (tenant, key, task, fingerprint, answer, expires_at, change_id, owner)
  SELECT u.tenant, u.key, u.task, u.fingerprint, u.answer, now() + u.expires_in, u.change_id, u.owner
  FROM ok, ";

const PUT_AS: &str = " AS u (task, change_id, tenant, key, fingerprint, answer, expires_in, owner) WHERE ok.every
  ON CONFLICT (tenant, key) DO UPDATE SET task = excluded.task, fingerprint = excluded.fingerprint,
     answer = excluded.answer, expires_at = excluded.expires_at, change_id = excluded.change_id, owner = excluded.owner
  WHERE (i.task = excluded.task AND i.answer IS NULL) OR i.expires_at <= now()
  RETURNING 1)";

/// A column of the commit's answer, behind [`PUT`].
pub(super) const PUT_OR_REFUSE: &str = ",
  CASE WHEN (SELECT count(*) FROM key_put) = ? THEN TRUE ELSE counterstep_refuse('idempotency_key_taken') END";

const DELETE: &str = ", key_deleted AS (DELETE FROM idempotency i USING ok, ";

const DELETE_AS: &str = " AS u (task, tenant, key)
  WHERE ok.every AND i.tenant = u.tenant AND i.key = u.key AND i.task = u.task AND i.answer IS NULL)";

/// Adds the changes of keys. Gives how many rows are put; where there are any, the answer needs
/// [`PUT_OR_REFUSE`].
pub(super) fn put<'a, Row>(
    statement: &mut Statement<'a, Row>,
    changes: &[&'a Transition],
) -> Result<Option<i64>, Fault> {
    let ((tasks, ids), writes) = rows_of(changes, |change| change.idempotency.iter());
    let (mut put_tasks, mut put_ids, mut tenants, mut keys) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut fingerprints, mut answers) =
        (Vec::<Option<Str<'a>>>::new(), Vec::<Option<Str<'a>>>::new());
    let (mut expiries, mut owners) = (Vec::new(), Vec::<Option<Str<'a>>>::new());
    let (mut gone_tasks, mut gone_tenants, mut gone_keys) = (Vec::new(), Vec::new(), Vec::new());
    for ((write, task), id) in writes.into_iter().zip(tasks).zip(ids) {
        let (tenant, key, finished, owner, expires_in) = match write {
            IdempotencyWrite::Abandon { tenant, key } => {
                gone_tasks.push(task);
                gone_tenants.push(name("idempotency.tenant", &tenant.0)?);
                gone_keys.push(name("idempotency.key", key)?);
                continue;
            }
            IdempotencyWrite::Begin {
                tenant,
                key,
                owner,
                expires_in,
            } => (
                tenant,
                key,
                None,
                Some(name("idempotency.owner", owner)?),
                *expires_in,
            ),
            IdempotencyWrite::Finish {
                tenant,
                key,
                fingerprint,
                answer,
                expires_in,
            } => {
                let finished = (
                    name("idempotency.fingerprint", fingerprint)?,
                    write_json(answer)?,
                );
                (tenant, key, Some(finished), None, *expires_in)
            }
        };
        let (fingerprint, answer) = finished.unzip();
        put_tasks.push(task);
        put_ids.push(id);
        tenants.push(name("idempotency.tenant", &tenant.0)?);
        keys.push(name("idempotency.key", key)?);
        fingerprints.push(fingerprint);
        answers.push(answer);
        expiries.push(interval(expires_in));
        owners.push(owner);
    }
    let (to_put, to_delete) = (put_tasks.len(), gone_tasks.len());
    if to_put > 0 {
        let binds = values![
            put_tasks,
            put_ids,
            tenants,
            keys,
            fingerprints,
            answers,
            expiries,
            owners
        ];
        statement.push_table(PUT, to_put, binds, PUT_AS);
    }
    if to_delete > 0 {
        statement.push_table(
            DELETE,
            to_delete,
            values![gone_tasks, gone_tenants, gone_keys],
            DELETE_AS,
        );
    }
    Ok((to_put > 0).then(|| i64::try_from(to_put).unwrap_or(i64::MAX)))
}

/// The unexpired row of a key. Its answer is given again, and is a promise as the first one was.
pub(super) fn find<'a>(tenant: &'a Tenant, key: &'a str) -> Statement<'a, KeyTypes> {
    Statement::of(
        concat!(
            "WITH found AS MATERIALIZED (SELECT task, fingerprint, answer, owner FROM idempotency
               WHERE tenant = ? AND key = ? AND expires_at > now())
             SELECT task, fingerprint, answer, owner FROM found WHERE ",
            // For the row that is found, and not where there is none.
            replicated!()
        ),
        values![tenant.0.as_str(), key],
    )
}
