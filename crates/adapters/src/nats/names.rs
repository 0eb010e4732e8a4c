//! Names of streams, consumers and subjects. Must not let a name of one queue or type reach into
//! another's subjects.

use super::options::NatsOpenError;
use crate::nats_rights;
use counterstep_contracts::{QueueName, TaskId};
use counterstep_kernel::ports::QueueError;

/// Names under an optional prefix.
#[derive(Debug, Clone)]
pub(super) struct Names {
    prefix: Option<String>,
}

impl Names {
    pub(super) fn new(prefix: Option<&str>) -> Result<Self, NatsOpenError> {
        match prefix {
            Some(prefix) if !is_token(prefix) => Err(NatsOpenError::Setting(format!(
                "the prefix `{}` is no name; expected letters, digits, `_` and `-`",
                prefix.escape_debug()
            ))),
            prefix => Ok(Self {
                prefix: prefix.map(str::to_owned),
            }),
        }
    }

    pub(super) fn work_stream(&self) -> String {
        nats_rights::stream(self.prefix(), "work")
    }

    pub(super) fn events_stream(&self) -> String {
        nats_rights::stream(self.prefix(), "events")
    }

    /// A subject, or a pattern, under the prefix.
    pub(super) fn subject(&self, rest: &str) -> String {
        nats_rights::subject(self.prefix(), rest)
    }

    fn prefix(&self) -> Option<&str> {
        self.prefix.as_deref()
    }

    /// `work.{queue}.{type}.v{n}`.
    pub(super) fn work(
        &self,
        queue: &QueueName,
        task_type: &str,
        version: u32,
    ) -> Result<String, QueueError> {
        check_queue(queue)?;
        Ok(self.subject(&format!(
            "work.{}.{}.v{version}",
            queue.0,
            token(task_type)?
        )))
    }

    /// All messages of a queue. The queue of an API process, `{queue}.api`, has a token more, and so has
    /// the lanes `{queue}.backlog` and `{queue}.urgent`, so neither pattern holds the other's messages: consumers of a work queue must not overlap.
    pub(super) fn work_of(&self, queue: &QueueName) -> Result<String, QueueError> {
        check_queue(queue)?;
        Ok(nats_rights::messages(self.prefix(), queue))
    }

    /// The durable consumer of a queue.
    pub(super) fn consumer(&self, queue: &QueueName) -> Result<String, QueueError> {
        check_queue(queue)?;
        Ok(nats_rights::consumer(queue))
    }

    /// What is published to create the consumer of a queue.
    pub(super) fn creation(&self, queue: &QueueName) -> String {
        nats_rights::creation(self.prefix(), queue)
    }

    /// What is published to fetch from the consumer of a queue.
    pub(super) fn fetching(&self, queue: &QueueName) -> String {
        nats_rights::fetching(self.prefix(), queue)
    }

    /// What a process that serves a queue publishes.
    pub(super) fn rights(&self, queue: &QueueName) -> [String; 5] {
        nats_rights::of_queue(self.prefix(), queue)
    }

    /// `events.{type}.{event}`.
    pub(super) fn event(&self, task_type: &str, event: &str) -> Result<String, QueueError> {
        Ok(self.subject(&format!("events.{}.{}", token(task_type)?, token(event)?)))
    }

    /// `signal.{kind}.{task}`.
    pub(super) fn signal(&self, kind: &str, task: TaskId) -> String {
        self.subject(&format!("signal.{kind}.{task}"))
    }
}

/// Macros let no other names through; a declaration that was written by hand could.
fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

fn token(text: &str) -> Result<&str, QueueError> {
    let refused = || {
        QueueError(format!(
            "`{}` cannot be a part of a subject; expected letters, digits, `_` and `-`",
            text.escape_debug()
        ))
    };
    is_token(text).then_some(text).ok_or_else(refused)
}

fn check_queue(queue: &QueueName) -> Result<(), QueueError> {
    let base = queue.base().0;
    token(base.strip_suffix(".api").unwrap_or(&base)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(name: &str) -> QueueName {
        QueueName(name.to_owned())
    }

    #[test]
    fn names_are_as_documented() {
        let names = Names::new(None).unwrap();
        assert_eq!(names.work_stream(), "counterstep-work");
        assert_eq!(
            names.work(&queue("files"), "Zip", 2).unwrap(),
            "work.files.Zip.v2"
        );
        assert_eq!(
            names.work_of(&queue("files.api")).unwrap(),
            "work.files.api.*.*"
        );
        assert_eq!(names.consumer(&queue("files.api")).unwrap(), "files~api");
        let backlog = queue("files").backlog();
        assert_eq!(
            names.work(&backlog, "Zip", 2).unwrap(),
            "work.files.backlog.Zip.v2"
        );
        assert_eq!(names.work_of(&backlog).unwrap(), "work.files.backlog.*.*");
        assert_eq!(names.consumer(&backlog).unwrap(), "files~backlog");
        let urgent = queue("files").urgent();
        assert_eq!(names.work_of(&urgent).unwrap(), "work.files.urgent.*.*");
        assert_eq!(names.consumer(&urgent).unwrap(), "files~urgent");
        assert_eq!(
            names.event("Zip", "step_succeeded").unwrap(),
            "events.Zip.step_succeeded"
        );
        let names = Names::new(Some("staging")).unwrap();
        assert_eq!(names.events_stream(), "staging-events");
        assert_eq!(
            names.work_of(&queue("files")).unwrap(),
            "staging.work.files.*.*"
        );
    }

    #[test]
    fn a_name_that_would_reach_into_other_subjects_is_refused() {
        let names = Names::new(None).unwrap();
        for bad in [
            "",
            ".api",
            ".backlog",
            "a.b.backlog",
            ".urgent",
            "a.b.urgent",
            "a.urgent.backlog",
            "a.b",
            "a.b.api",
            "*",
            ">",
            "a b",
            "a\r\nPUB x",
            "ä",
        ] {
            assert!(names.consumer(&queue(bad)).is_err(), "{bad}");
            assert!(names.work(&queue(bad), "Zip", 1).is_err(), "{bad}");
        }
        assert!(names.work(&queue("files"), "Zip.v1", 1).is_err());
        assert!(names.event("Zip", ">").is_err());
        assert!(Names::new(Some("a.b")).is_err());
    }
}
