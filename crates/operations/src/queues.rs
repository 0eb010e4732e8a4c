//! Queues, what waits on them, and which are paused.

use crate::{Cx, Refused, Run};
use counterstep_contracts::QueueName;
use counterstep_contracts::http::Page;
use counterstep_contracts::operation::queues::{ListQueues, PauseQueue, ResumeQueue};
use counterstep_contracts::queue::{QueueRequest, QueueView};
use counterstep_kernel::Engine;
use counterstep_kernel::admission::paused_queues::{QueueRow, pause_queue, queues, resume_queue};
use std::collections::BTreeMap;

impl Run for ListQueues {
    async fn run(cx: Cx, (): (), (): ()) -> Result<Page<QueueView>, Refused> {
        let rows = queues(&cx.engine).await?;
        Ok(Page::whole(rows.into_iter().map(view).collect()))
    }
}

impl Run for PauseQueue {
    async fn run(cx: Cx, name: QueueName, input: QueueRequest) -> Result<QueueView, Refused> {
        let (actor, note) = cx.decided::<Self>(&input.note, input.actor.as_deref())?;
        pause_queue(&cx.engine, &name, &actor, &note).await?;
        named(&cx.engine, name).await
    }
}

impl Run for ResumeQueue {
    async fn run(cx: Cx, name: QueueName, input: QueueRequest) -> Result<QueueView, Refused> {
        let (actor, note) = cx.decided::<Self>(&input.note, input.actor.as_deref())?;
        resume_queue(&cx.engine, &name, &actor, &note).await?;
        named(&cx.engine, name).await
    }
}

async fn named(engine: &Engine, name: QueueName) -> Result<QueueView, Refused> {
    let rows = queues(engine).await?;
    let row = rows.into_iter().find(|row| row.name == name);
    Ok(view(row.unwrap_or_else(|| QueueRow::empty(name))))
}

fn view(row: QueueRow) -> QueueView {
    let depth = row.depth();
    let empty_in = row.rates.time_to_empty(depth);
    let mut tasks = BTreeMap::new();
    // Its lanes are counted one by one.
    for it in row.tasks {
        *tasks.entry(it.status).or_default() += it.count;
    }
    QueueView {
        name: row.name.0,
        paused: row.paused.map(|pause| pause.view()),
        tasks,
        depth,
        oldest_seconds: row.oldest.map(|age| age.as_secs()),
        in_per_minute: row.rates.came_per_minute,
        out_per_minute: row.rates.left_per_minute,
        empty_in_seconds: empty_in.map(|time| time.as_secs()),
    }
}
