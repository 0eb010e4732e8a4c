//! What goes out with a change, and into tables beside the task's own: messages to hosts, the client's
//! key, a document, and statements of the user's.

use super::Draft;
use crate::change::transition::Work;
use counterstep_contracts::{Host, WorkerMessage};
use serde_json::Value;

impl Draft {
    /// Tells the hosts of `host` that the task is theirs to claim.
    pub(crate) fn dispatch_to(&mut self, host: Host) {
        let queue = self.decl.queue_of(host);
        let (outputs, rev) = (self.outputs_so_far(), self.base().1.next());
        let task = &mut self.record.task;
        task.host = host;
        task.queue.clone_from(&queue.0);
        let message = WorkerMessage {
            task: task.id,
            tenant: Some(task.tenant.clone()),
            task_type: task.task_type.clone(),
            version: task.version,
            rev,
            traceparent: task.traceparent.clone(),
            outputs,
        };
        self.outgoing.work.push(Work { queue, message });
    }

    fn outputs_so_far(&self) -> serde_json::Map<String, Value> {
        /// Maximum bytes of the outputs in a message; larger ones are left out, as they only save a read.
        const LIMIT: usize = 16 * 1024;
        let outputs: serde_json::Map<_, _> = self
            .record
            .steps
            .iter()
            .filter_map(|row| {
                row.output
                    .as_ref()
                    .map(|output| (row.name.clone(), output.clone()))
            })
            .collect();
        let size = serde_json::to_string(&outputs).map_or(usize::MAX, |text| text.len());
        if size <= LIMIT {
            outputs
        } else {
            serde_json::Map::new()
        }
    }
}
