//! Object keys: how they are built and read. Epoch and attempt stand in every key: a database fence cannot stop a paused
//! process, or an upload that hangs past its time limit, from overwriting a fixed one.

use crate::error::{StepError, StepResult};
use crate::guard;
use counterstep_contracts::{Attempt, Epoch, TaskId, Tenant};

/// `t/{tenant}/{task}/`: everything that a task ever stored.
#[must_use]
pub fn task_prefix(tenant: &Tenant, task: TaskId) -> String {
    format!("t/{tenant}/{task}/")
}

/// `t/{tenant}/{task}/{step}/`: everything that any attempt of a step stored.
#[must_use]
pub(crate) fn step_prefix(tenant: &Tenant, task: TaskId, step: &str) -> String {
    format!("t/{tenant}/{task}/{step}/")
}

/// `t/{tenant}/{task}/{step}/e{epoch}.{attempt}/`: what one attempt stores.
#[must_use]
pub fn attempt_prefix(
    tenant: &Tenant,
    task: TaskId,
    step: &str,
    epoch: Epoch,
    attempt: Attempt,
) -> String {
    if guard!("attempt in keys", false) {
        return format!("t/{tenant}/{task}/{step}/e1.1/");
    }
    format!("t/{tenant}/{task}/{step}/e{epoch}.{attempt}/")
}

/// `{prefix}{n}`: the object with this number of an attempt.
#[must_use]
pub fn object_key(attempt_prefix: &str, n: u32) -> String {
    format!("{attempt_prefix}{n}")
}

/// What a key says of its object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectKey {
    /// Tenant that owns it.
    pub tenant: Tenant,
    /// Id of the task.
    pub task: TaskId,
    /// Name of the step; of its undo with `.undo` at the end.
    pub step: String,
    /// Stored under this epoch.
    pub epoch: Epoch,
    /// By this attempt.
    pub attempt: Attempt,
    /// What all objects of this attempt begin with.
    pub prefix: String,
}

impl ObjectKey {
    /// Reads `t/{tenant}/{task}/{step}/e{epoch}.{attempt}/{n}`; `None`: it is none of ours. Only
    /// the very form that we write counts: a key that merely resembles it is not ours.
    #[must_use]
    pub fn parse(key: &str) -> Option<Self> {
        let parts: Vec<&str> = key.split('/').collect();
        let ["t", tenant, task, step, attempt, number] = parts[..] else {
            return None;
        };
        let (epoch, attempt) = attempt.strip_prefix('e')?.split_once('.')?;
        let read = Self {
            tenant: Tenant(tenant.to_owned()),
            task: task.parse().ok()?,
            step: step.to_owned(),
            epoch: Epoch(epoch.parse().ok()?),
            attempt: Attempt(attempt.parse().ok()?),
            prefix: key[..key.len() - number.len()].to_owned(),
        };
        number.parse::<u32>().ok()?;
        let ours = !tenant.is_empty() && !step.is_empty();
        (ours
            && read.prefix
                == attempt_prefix(&read.tenant, read.task, step, read.epoch, read.attempt))
        .then_some(read)
    }
}

/// Whether objects can be set aside under this name: 1 to 200 bytes of `A-Z a-z 0-9 . _ - /`, no
/// empty or dotted segment, and not `t` as its first one, which is where tasks store.
#[must_use]
pub fn is_archive_prefix(prefix: &str) -> bool {
    let segment = |text: &str| {
        !matches!(text, "" | "." | "..")
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
    };
    prefix.len() <= 200 && prefix.split('/').all(segment) && prefix.split('/').next() != Some("t")
}

/// Refuses a bucket name that [`is_bucket_name`] does not accept.
///
/// # Errors
/// Permanent.
pub fn check_bucket_name(name: &str) -> StepResult<()> {
    if is_bucket_name(name) {
        return Ok(());
    }
    Err(StepError::permanent(format_args!(
        "invalid bucket name `{}`: use 3 to 63 of a-z, 0-9, dot and hyphen",
        name.escape_debug()
    )))
}

/// Whether a bucket name from a declaration is acceptable: 3 to 63 of `a-z 0-9 . -`, no dot at an
/// end or in pairs.
#[must_use]
pub fn is_bucket_name(name: &str) -> bool {
    (3..=63).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.')
        && !name.starts_with(['.', '-'])
        && !name.ends_with(['.', '-'])
        && !name.contains("..")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Objects of running tasks and of released programs have such keys: another form would orphan
    /// them all.
    #[test]
    fn the_form_of_an_object_key_is_fixed() {
        let task: TaskId = "01981a2b-3c4d-7e5f-8a9b-0c1d2e3f4a5b".parse().unwrap();
        let prefix = attempt_prefix(
            &Tenant("acme".to_owned()),
            task,
            "upload_zip",
            Epoch(3),
            Attempt(2),
        );
        assert_eq!(
            prefix,
            "t/acme/01981a2b-3c4d-7e5f-8a9b-0c1d2e3f4a5b/upload_zip/e3.2/"
        );
        let key = ObjectKey::parse("t/acme/01981a2b-3c4d-7e5f-8a9b-0c1d2e3f4a5b/upload_zip/e3.2/7")
            .unwrap();
        assert_eq!(
            (key.epoch, key.attempt, key.prefix),
            (Epoch(3), Attempt(2), prefix)
        );
    }

    #[test]
    fn only_keys_of_our_own_form_are_read() {
        let task = "0193a1b2-0000-7000-8000-000000000001";
        let key = |rest: &str| format!("t/default/{task}/{rest}");
        let read = ObjectKey::parse(&key("zip.undo/e12.3/0")).unwrap();
        assert_eq!(
            (read.step.as_str(), read.epoch, read.attempt),
            ("zip.undo", Epoch(12), Attempt(3))
        );
        assert_eq!(read.prefix, key("zip.undo/e12.3/"));
        for unmanaged in [
            "",
            "t/",
            "x",
            &key("zip/e1.1"),
            &key("zip/e1.1/"),
            &key("zip/e1.1/0/1"),
            &key("zip/1.1/0"),
            &key("zip/e01.1/0"),
            &key("zip/e1.+1/0"),
            &key("zip/e1.1/x"),
            &key("/e1.1/0"),
            "t//0193a1b2-0000-7000-8000-000000000001/zip/e1.1/0",
            "t/default/0193A1B2-0000-7000-8000-000000000001/s/e1.1/0",
            "t/default/0193a1b2000070008000000000000001/s/e1.1/0",
            "u/default/0193a1b2-0000-7000-8000-000000000001/s/e1.1/0",
        ] {
            assert_eq!(ObjectKey::parse(unmanaged), None, "{unmanaged}");
        }
        for (prefix, usable) in [
            ("orphans", true),
            ("a/b.c", true),
            ("t/x", false),
            ("a//b", false),
            ("", false),
            ("../x", false),
        ] {
            assert_eq!(is_archive_prefix(prefix), usable, "{prefix}");
        }
    }
}
