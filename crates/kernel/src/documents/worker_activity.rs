//! What a process does and did last, in the document of its row: small, since all rows are read at once. Names stand there once, and
//! entries are lists of numbers. Times are milliseconds before the write, so that no clock of a machine counts.

use super::workers::micros;
use crate::ports::{Activity, EndedTurn, QueueFlow, RunningTurn, TasksMoved};
use counterstep_contracts::{QueueName, TaskId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct ActivityBody {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    memory: Option<u64>,
    /// Names of task types and steps, and words for how turns end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    names: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    turns: Vec<RunningBody>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    recent: Vec<EndedBody>,
    #[serde(default)]
    window_us: u64,
    /// By queue: those that came, and those that left.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    queues: BTreeMap<QueueName, (u64, u64)>,
}

/// The place of a name.
type Name = usize;

/// The place of its task among the running ones of the row, its type, its step, and when it was claimed.
#[derive(Debug, Serialize, Deserialize)]
struct RunningBody(usize, Name, Option<Name>, u64);

/// Task, type, how it has ended, failed attempts, how long it took, and when it ended.
#[derive(Debug, Serialize, Deserialize)]
struct EndedBody(TaskId, Name, Name, u32, u64, u64);

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl ActivityBody {
    /// `running`: the tasks of the row.
    pub(super) fn of(activity: &Activity, running: &[TaskId]) -> Self {
        let mut body = Self {
            memory: activity.memory,
            window_us: micros(activity.flow.window),
            ..Self::default()
        };
        for turn in &activity.turns {
            let Some(task) = running.iter().position(|it| *it == turn.task) else {
                continue;
            };
            let task_type = body.place(&turn.task_type);
            let step = turn.step.as_deref().map(|step| body.place(step));
            let running = RunningBody(task, task_type, step, millis(turn.ago));
            body.turns.push(running);
        }
        for turn in &activity.recent {
            let task_type = body.place(&turn.task_type);
            let outcome = body.place(turn.outcome.as_str());
            let (took, ago) = (millis(turn.took), millis(turn.ago));
            let failed = turn.failed_attempts;
            body.recent
                .push(EndedBody(turn.task, task_type, outcome, failed, took, ago));
        }
        let queues = activity.flow.queues.iter();
        let queues = queues.map(|(queue, moved)| (queue.clone(), (moved.came, moved.left)));
        body.queues = queues.collect();
        body
    }

    fn place(&mut self, name: &str) -> Name {
        let known = self.names.iter().position(|it| it == name);
        known.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        })
    }

    /// `since`: the time since the write. What a newer program has other words for is left out.
    pub(super) fn read(self, running: &[TaskId], since: Duration) -> Activity {
        let name = |at: Name| self.names.get(at).cloned();
        let ago = |millis: u64| since + Duration::from_millis(millis);
        let turns = self.turns.iter().filter_map(|it| {
            let RunningBody(task, task_type, step, claimed) = *it;
            Some(RunningTurn {
                task: *running.get(task)?,
                task_type: name(task_type)?,
                step: step.and_then(name),
                ago: ago(claimed),
            })
        });
        let recent = self.recent.iter().filter_map(|it| {
            let EndedBody(task, task_type, outcome, failed_attempts, took, ended) = *it;
            Some(EndedTurn {
                task,
                task_type: name(task_type)?,
                outcome: self.names.get(outcome)?.parse().ok()?,
                failed_attempts,
                took: Duration::from_millis(took),
                ago: ago(ended),
            })
        });
        let (turns, recent) = (turns.collect(), recent.collect());
        let moved = |(came, left)| TasksMoved { came, left };
        let queues = self.queues.into_iter();
        Activity {
            memory: self.memory,
            turns,
            recent,
            flow: QueueFlow {
                window: Duration::from_micros(self.window_us),
                queues: queues.map(|(queue, of)| (queue, moved(of))).collect(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::RECENT_TURNS;
    use counterstep_contracts::workers::TurnOutcome;
    use uuid::Uuid;

    const fn millis(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn turn(number: usize) -> EndedTurn {
        let outcomes = TurnOutcome::ALL;
        EndedTurn {
            task: TaskId(Uuid::from_u128(u128::MAX - number as u128)),
            task_type: format!("CreateZipFromFiles{}", number % 12),
            outcome: outcomes[number % outcomes.len()],
            failed_attempts: 12,
            took: millis(3_600_000),
            ago: millis(86_400_000),
        }
    }

    fn busy() -> (Activity, Vec<TaskId>) {
        let running: Vec<_> = (0..3).map(|it| TaskId(Uuid::from_u128(it))).collect();
        let runs = |at: usize, step: Option<&str>| RunningTurn {
            task: running[at],
            task_type: "CreateZipFromFiles1".to_owned(),
            step: step.map(str::to_owned),
            ago: millis(4_000),
        };
        let moved = TasksMoved { came: 7, left: 5 };
        let activity = Activity {
            memory: Some(50 << 20),
            turns: vec![runs(2, Some("upload_zip")), runs(0, None)],
            recent: (0..RECENT_TURNS).map(turn).collect(),
            flow: QueueFlow {
                window: millis(250_000),
                queues: BTreeMap::from([(QueueName("files".to_owned()), moved)]),
            },
        };
        (activity, running)
    }

    #[test]
    fn what_is_written_is_read_with_the_time_since() {
        let (mut activity, running) = busy();
        let body = serde_json::to_string(&ActivityBody::of(&activity, &running)).expect("a text");
        let read: ActivityBody = serde_json::from_str(&body).expect("a body");
        let read = read.read(&running, millis(500));
        for turn in &mut activity.turns {
            turn.ago += millis(500);
        }
        for turn in &mut activity.recent {
            turn.ago += millis(500);
        }
        assert_eq!(read, activity);
    }

    /// A thousand rows are read at once.
    #[test]
    fn a_hundred_turns_take_less_than_eight_kilobytes() {
        let (activity, running) = busy();
        let body = serde_json::to_string(&ActivityBody::of(&activity, &running)).expect("a text");
        assert!(body.len() < 8_000, "{}", body.len());
    }

    #[test]
    fn an_outcome_of_a_newer_program_leaves_its_turn_out_and_no_other() {
        let task = TaskId(Uuid::from_u128(1));
        let body = format!(
            r#"{{"names":["A","completed","eaten"],"recent":[["{task}",0,2,0,1,1],["{task}",0,1,0,1,1],["{task}",9,1,0,1,1]],
                "turns":[[5,0,null,1]]}}"#
        );
        let read: ActivityBody = serde_json::from_str(&body).expect("a body");
        let read = read.read(&[task], Duration::ZERO);
        let outcomes: Vec<_> = read.recent.iter().map(|it| it.outcome).collect();
        assert_eq!(outcomes, [TurnOutcome::Completed]);
        assert_eq!(read.turns, []);
    }
}
