//! What is shut, of all that may hold a task back. Reads what each of them knows of itself.

use crate::{Cx, Refused, Run};
use counterstep_contracts::commands::in_shell;
use counterstep_contracts::gate::{GateKind, GateView};
use counterstep_contracts::http::Page;
use counterstep_contracts::operation::gates::ListGates;
use counterstep_contracts::workers::BreakerStanding;
use counterstep_kernel::admission::breakers::breakers_of_all;
use counterstep_kernel::admission::limits::limits;
use counterstep_kernel::admission::pauses::Pause;
use counterstep_kernel::admission::{paused_queues, paused_workers};
use counterstep_steps::times::rfc3339;

impl Run for ListGates {
    async fn run(cx: Cx, (): (), (): ()) -> Result<Page<GateView>, Refused> {
        let engine = &cx.engine;
        let mut gates = Vec::new();
        for row in engine.ports.store.types().await?.rows {
            if let Some(disabled) = row.disabled {
                gates.push(GateView {
                    since: Some(rfc3339(disabled.since)),
                    by: Some(row.by),
                    note: Some(row.reason),
                    ..shut(GateKind::TaskType, &row.name, &["types", "enable"])
                });
            }
        }
        for (queue, pause) in paused_queues::all_paused(engine).await? {
            let gate = shut(GateKind::Queue, &queue.0, &["queues", "resume"]);
            gates.push(paused(gate, &pause));
        }
        for (of, pause) in paused_workers::all_paused(engine).await? {
            let gate = GateView {
                name: format!("{}:{}", of.role, of.machine),
                ..shut(
                    GateKind::Workers,
                    &of.machine,
                    &["workers", "resume", "--role", &of.role],
                )
            };
            gates.push(paused(gate, &pause));
        }
        for row in limits(engine).await? {
            if let Some(set) = row.set {
                gates.push(GateView {
                    since: Some(rfc3339(set.since)),
                    by: Some(set.by),
                    note: Some(set.note),
                    ..shut(GateKind::Limit, &row.name, &["limits", "reset"])
                });
            }
        }
        for breaker in breakers_of_all(engine).await? {
            if breaker.state != BreakerStanding::Closed {
                gates.push(shut(
                    GateKind::Breaker,
                    &breaker.name,
                    &["breakers", "close"],
                ));
            }
        }
        Ok(Page::whole(gates))
    }
}

fn shut(gate: GateKind, name: &str, words: &[&str]) -> GateView {
    GateView {
        gate,
        name: name.to_owned(),
        since: None,
        by: None,
        note: None,
        opens: in_shell(words.iter().copied().chain([name, "--note", "WHY"])),
    }
}

fn paused(gate: GateView, pause: &Pause) -> GateView {
    GateView {
        since: Some(rfc3339(pause.since)),
        by: Some(pause.by.clone()),
        note: Some(pause.note.clone()),
        ..gate
    }
}
