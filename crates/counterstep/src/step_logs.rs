//! What the code of steps logs: in both forms of the log, with the task and the step that it ran
//! for.

use crate::prelude::*;
use counterstep_contracts::TaskStatus;
use counterstep_node::logging;
use counterstep_node::settings::LogFormat;
use counterstep_testkit::{Form, Harness};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::Write;
use std::sync::{Arc, Mutex};
use tracing_subscriber::layer::SubscriberExt;

/// The target of the lines below, and of nothing else in this program.
const OWN: &str = "counterstep::step_logs=info";

/// The line of the engine about a task that has come to rest, of all tests of this program.
const RESTS: &str = "counterstep_kernel::change::announce=info";

#[derive(Debug, Serialize, Deserialize)]
struct Guest {
    name: String,
}

struct Greet;

#[distributed_task]
impl Greet {
    type Request = Guest;
    type Response = String;

    #[step(1, host = "worker", when = is_known, undo = take_back)]
    async fn greet(guest: &Guest) -> StepResult<String> {
        tracing::info!(guest = guest.name, "greeted");
        Ok(guest.name.clone())
    }

    fn is_known(guest: &Guest) -> bool {
        tracing::info!("looked up");
        !guest.name.is_empty()
    }

    async fn take_back() -> UndoResult {
        tracing::info!("taken back");
        Ok(())
    }

    #[step(2, host = "worker", no_undo = "fails")]
    async fn fail() -> StepResult<u32> {
        Err(StepError::permanent("no seat"))
    }

    fn respond(greet: Option<&String>) -> String {
        greet.cloned().unwrap_or_default()
    }
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// The only line with this text.
    fn line_with(&self, text: &str) -> String {
        let log = String::from_utf8(self.0.lock().expect("a log").clone()).expect("UTF-8");
        let lines: Vec<_> = log.lines().filter(|line| line.contains(text)).collect();
        let [line] = lines[..] else {
            panic!("one line with `{text}` in:\n{log}")
        };
        line.to_owned()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("a log").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn what_a_step_logs_names_its_task_step_and_attempt_in_text_and_in_json() {
    let (text, json, rests) = (Log::default(), Log::default(), Log::default());
    let (to_text, to_json, to_rests) = (text.clone(), json.clone(), rests.clone());
    // Steps run on threads of their own, so the log is the process's. The other tests of this
    // program write nothing that the filter lets through.
    let both = tracing_subscriber::registry()
        .with(logging::lines(OWN, LogFormat::Text, move || {
            to_text.clone()
        }))
        .with(logging::lines(OWN, LogFormat::Json, move || {
            to_json.clone()
        }))
        .with(logging::lines(RESTS, LogFormat::Json, move || {
            to_rests.clone()
        }));
    tracing::subscriber::set_global_default(both).expect("the first log of this process");

    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let form = Form::new()
        .field("name", "Ada")
        .traceparent(trace)
        .label("order", "a \"b\"");
    let task = Harness::embedded(Registry::new().with::<Greet>())
        .submit(form)
        .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);

    let id = task.id.to_string();
    let common = [
        ("task", id.as_str()),
        ("task_type", "Greet"),
        ("step", "greet"),
        ("trace_id", "0af7651916cd43dd8448eb211c80319c"),
    ];
    for (message, own) in [
        ("looked up", vec![("part", "condition")]),
        ("greeted", vec![("direction", "forward"), ("attempt", "1")]),
        ("taken back", vec![("direction", "undo"), ("attempt", "1")]),
    ] {
        let line = text.line_with(message);
        let object: Value = serde_json::from_str(&json.line_with(message)).expect("JSON");
        assert_eq!(object["message"], message);
        for (field, value) in common.iter().chain(&own) {
            assert!(
                [format!("{field}={value}"), format!("{field}={value:?}")]
                    .iter()
                    .any(|pair| line.contains(pair)),
                "{field} in {line}"
            );
            assert_eq!(object["spans"][0][field], *value, "{field} in {object}");
        }
    }
    let object: Value = serde_json::from_str(&rests.line_with(&id)).expect("JSON");
    for (field, value) in [
        ("message", "the task is at rest"),
        ("task_type", "Greet"),
        ("status", "failed"),
        ("trace_id", "0af7651916cd43dd8448eb211c80319c"),
        ("step", "fail"),
        ("class", "permanent"),
        ("labels", r#"{"order":"a \"b\""}"#),
    ] {
        assert_eq!(object[field], value, "{field} in {object}");
    }
}
